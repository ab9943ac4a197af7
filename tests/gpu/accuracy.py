#!/usr/bin/env python3
"""How well the built-in model fills in masked bytes on the CUDA engine: a line for each dtype.

    accuracy.py CORPUS [--folder FOLDER] [--sample N]

CORPUS is what weights/builtin/corpus.py writes, of which heldout.bin and heldout.npy are read. Needs numpy and PyTorch.
FOLDER (build/gpu) is what tests/gpu/check.sh leaves: the daemon, and beside it the engine, with DRY=1 the shim's, which
needs seconds for a window."""
import argparse
import os
import pathlib
import re
import subprocess
import sys

DTYPES = ("f32", "tf32", "bf16", "f16")
EVALUATE = pathlib.Path(__file__).resolve().parents[2] / "weights" / "builtin" / "evaluate.py"


def evaluate(folder, dtype, corpus, sample):
    """What evaluate.py says of a daemon that computes in this dtype."""
    path = ":".join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))  # a driver may be found only there
    environment = os.environ | {"LD_LIBRARY_PATH": path, "SHIM_SEED": "0"}
    daemon = subprocess.Popen([folder / "linformerd", "--device", "cuda", "--dtype", dtype, "--port", "0",
                               "--request-timeout-ms", "0"], stderr=subprocess.PIPE, text=True, env=environment)
    try:
        url = next((match[0] for line in daemon.stderr if (match := re.search(r"http://\S+:\d+", line))), None)
        if url is None:
            raise RuntimeError(f"the daemon does not start with --dtype {dtype}")
        return subprocess.run([sys.executable, EVALUATE, "--daemon", url, "--corpus", corpus, "--sample", str(sample)],
                              stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    finally:
        daemon.terminate()
        daemon.communicate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/gpu"))
    parser.add_argument("--sample", type=int, default=32, help="windows of 256 bytes (%(default)s)")
    options = parser.parse_args()
    for dtype in DTYPES:
        print(dtype, evaluate(options.folder.resolve(), dtype, options.corpus, options.sample), flush=True)


if __name__ == "__main__":
    main()
