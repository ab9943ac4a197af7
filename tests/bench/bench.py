#!/usr/bin/env python3
"""Measures linformerd and other programs, prints ratios, and writes the tables of BENCHMARKS.md.

    bench.py [--rounds N] [--seconds S] [--shapes 1x128,8x512] [--pieces vit_224:f32:1,…] [PART…]

Without a PART, all parts run, which takes about an hour on two cores. Each part writes only the tables that it
measures."""
import argparse
import os
import pathlib
import subprocess
import sys

import environment
import part_engine
import part_generation
import part_growth
import part_modules
import part_server
import report


def run_programs(name, *commands):
    """Returns a part whose tables are the outputs of programs."""
    variables = os.environ | {"BUILD": str(environment.BUILD), "LINFORMERD": str(environment.LINFORMERD)}

    def run(options):
        began, printed, failed = report.heading(options.command), [], None
        for command in commands:
            process = subprocess.run(command, cwd=environment.ROOT, stdout=subprocess.PIPE, text=True, env=variables)
            printed.append(process.stdout.rstrip())
            if process.returncode != 0:
                failed = f"{pathlib.Path(command[0]).name} failed with status {process.returncode}"
                printed.append(failed)
        report.write(name, f"{began}\n```\n" + "\n\n".join(printed) + "\n```")
        if failed:
            raise RuntimeError(failed)
    return run


def parts():
    """All parts by name, in the order in which they run. Each script in this folder is a separate part, unless it is a
    test."""
    engine, load = environment.program("engine"), environment.ROOT / "tests" / "load"
    found = {"rates": run_programs("rates", [engine, "12", "1", "f32"], [engine, "12", "1", "bf16"]),
             "kernels": run_programs("kernels", [environment.program("vector")]),
             "engine": part_engine.run, "keras": part_engine.run_keras, "modules": part_modules.run, "server": part_server.run,
             "json": run_programs("json", [environment.program("text")]), "growth": part_growth.run,
             "generation": part_generation.run,
             "load": run_programs("load", *([load / f"{script}.sh"] for script in ("embed", "logits", "mixed")))}
    for script in sorted(environment.FOLDER.glob("*.sh")):
        if not script.stem.startswith("test_"):
            found[script.stem] = run_programs(script.stem, [script])
    return found


def shape(text):
    batch, _, length = text.partition("x")
    return int(batch), int(length)


def main():
    known = parts()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog=f"Parts: {', '.join(known)}.")
    parser.add_argument("--rounds", type=int, default=5, help="turns that each worker gets at most (%(default)s)")
    parser.add_argument("--seconds", type=float, default=10,
                        help="least time of each slice of the server part (%(default)s)")
    parser.add_argument("--shapes", type=lambda text: [shape(word) for word in text.split(",")],
                        help="shapes of the engine part, as BATCHxN,…")
    parser.add_argument("--pieces", type=lambda text: text.split(","),
                        help="pieces of the modules part, as MODULE:DTYPE:BATCH,…. By default all. Most pieces "
                             "take one to four minutes")
    parser.add_argument("parts", nargs="*", metavar="PART")
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in known]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(known)}")
    arguments = " ".join(sys.argv[1:])
    options.command = f'make bench ARGS="{arguments}"' if arguments else "make bench"
    failed = []
    for name in options.parts or known:
        try:
            known[name](options)
        except Exception as error:  # the results of the other parts remain useful
            print(f"bench: {name}: {type(error).__name__}: {error}", file=sys.stderr)
            failed.append(name)
    sys.exit(f"bench: failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
