"""Rows of docs/reliability.md that run other programs. These programs try faults, and print what they did. `make
reliability` builds the programs."""

import concurrent.futures
import glob
import os
import re
import subprocess

from daemon import BINARY, TREE, Skipped, check

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
CHECKED = os.path.join(BUILD, "asan")


def run_program(command, **variables):
    """Runs a program that reports in TAP, in the root of the repository. Returns its output."""
    environment = {**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP", "BUILD": BUILD, "LINFORMERD": os.path.abspath(BINARY), **variables}
    done = subprocess.run(command, cwd=TREE, env=environment, text=True, check=False, errors="replace",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = done.stdout
    check(done.returncode == 0 and not re.search(r"^not ok", said, re.M),
          f"{command[0]} ended with status {done.returncode}\n{said[-3000:]}")
    skipped = re.search(r"^ok.*# SKIP (.*)", said, re.M)
    if skipped:
        raise Skipped(skipped.group(1))
    return said


def numbers_in(said, pattern):
    """The integers in the groups of the pattern. The pattern must match."""
    found = re.search(pattern, said)
    check(found, f"{pattern} was expected in\n{said[-3000:]}")
    return [int(number) for number in found.groups()]


def programs(pattern):
    """The paths of the programs that match the pattern."""
    found = sorted(path for path in glob.glob(pattern) if os.access(path, os.X_OK) and "." not in os.path.basename(path))
    check(found, f"{pattern}: there is no program. 'make reliability' builds it")
    return found


def slots(row):
    visits = row.size(40, 1000)
    program, = programs(os.path.join(BUILD, "tests", "http", "test_slots_kept"))
    said = run_program([program], SEED=row.seed, VISITS=str(visits))
    read, invalid, no_json, half_closed, *broke_off, overloaded, embedded = numbers_in(
        said, r"answers read (\d+), invalid requests (\d+), no JSON (\d+), half closed (\d+), left (\d+), reset (\d+), cut in the body "
        r"(\d+), cut in the headers (\d+), of these answers 429 (\d+), /embed compared (\d+)")
    return {"visits": visits, "requests": read + invalid + no_json + half_closed + sum(broke_off), "read": read,
            "invalid": invalid + no_json, "half_closed": half_closed, "broke_off": sum(broke_off), "overloaded": overloaded,
            "embedded": embedded}


def failing_allocations(_):
    counts = []
    for program in programs(os.path.join(BUILD, "tests", "unit", "test_*_alloc")):
        said = run_program([program])
        here = [int(count) for count in re.findall(r"each of (\d+) allocations has failed", said)]
        check(here, f"{program} says nothing of allocations\n{said[-1000:]}")
        counts += here
    return {"failures": sum(counts), "operations": len(counts)}


def restarts(row):
    said = run_program([os.path.join(TREE, "tests", "cluster", "test_cluster.sh")], SEED=row.seed, FULL="1")
    answers = [int(count) for count in re.findall(r"^# (\d+) answers, 0 failed, 0 wrong", said, re.M)]
    proxies = sorted(set(re.findall(r"^# (\w+): round", said, re.M)))
    check(len(answers) == len(proxies) == 2, f"the counts of two proxies were expected\n{said[-3000:]}")
    sent_again, = numbers_in(said, r"\((\d+) requests were sent again\)")
    names = {"haproxy": "HAProxy"}
    return {"proxies": " and ".join(names.get(name, name) for name in proxies), "answers": sum(answers),
            "events": len(re.findall(r"^# \w+: round \d+: ", said, re.M)), "sent_again": sent_again}


def damaged(row, paths, count):
    """Gives each program `count` damaged inputs. One program at a time runs on each processor. Returns the outputs."""
    def run(path):
        return run_program(["tests/fuzz/mutate.sh", path], SEED=row.seed, COUNT=str(count))

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(run, paths))


def damaged_inputs(row):
    count = row.size(2000, 1000000)
    paths = [path for path in programs(os.path.join(CHECKED, "tests", "fuzz", "mutate_*")) if not path.endswith("_folders")]
    for said in damaged(row, paths, count):
        check(numbers_in(said, r"ok 1 - (\d+) damaged inputs") == [count], f"another number of inputs\n{said[-1000:]}")
    names = ", ".join(f"`{os.path.basename(path)[len('mutate_'):]}`" for path in paths)
    return {"inputs": count, "parsers": len(paths), "names": names}


def damaged_folders(row):
    count = row.size(100, 10000)
    said, = damaged(row, programs(os.path.join(CHECKED, "tests", "fuzz", "mutate_folders")), count)
    folders, models, refused = numbers_in(said, r"ok 1 - (\d+) damaged folders of (\d+) models. (\d+) were refused")
    return {"folders": folders, "models": models, "refused": refused}
