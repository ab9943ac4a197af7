#!/usr/bin/env python3
"""Tries faults and hostile clients against a daemon that serves. A row is a function, one TAP test, and one line of the
table of docs/reliability.md. The TAP comment of a row says how often a fault was tried, and what was lost.

    reliability.py [NAME…]   runs the rows of these names. By default, runs the rows that no other test runs, and that
                             do not judge times

    LONG=1         runs all rows, for minutes instead of seconds
    LIMIT_S=5400   ends the whole run after this time, in seconds. The current row fails, and no other row begins. The
                   value above is the default of a long run. A short run has no limit
    SEED=N         repeats a run
    SCALE=0.1      makes a long run of a tenth of the size
    LINFORMERD     path of the daemon
    RESULTS=FILE   keeps the figures of each row in this file
    PAGE=FILE      with RESULTS, also writes the table of this page (page.py)"""

import os
import random
import signal
import sys
import time
import traceback

sys.dont_write_bytecode = True
import allocations  # noqa: E402
import clients  # noqa: E402
import overload  # noqa: E402
import page  # noqa: E402
import programs  # noqa: E402
import resources  # noqa: E402
import traffic  # noqa: E402
from daemon import Skipped, end_descendants  # noqa: E402

ROWS = [traffic.mixed_traffic, clients.slow_clients, clients.idle_connections, clients.vanishing_clients,
        clients.bodies_at_the_limit, clients.requests_in_one_piece, clients.smuggled_requests, resources.few_descriptors,
        resources.little_memory, resources.no_threads, resources.full_log, resources.small_disk, resources.blocked_log,
        resources.damaged_models, resources.jumping_clock, allocations.failing_allocations_served,
        allocations.failing_allocations_reloaded, overload.overload, overload.overload_by_time, programs.slots,
        programs.failing_allocations, programs.restarts, programs.damaged_inputs, programs.damaged_folders]
JUDGES_TIMES = [overload.overload, overload.overload_by_time]
# `make test` and `make test-all` also run the programs of these rows.
PROGRAMS = [run for run in ROWS if run.__module__ == "programs"]


LIMIT_S = 5400  # default time limit of a long run, in seconds
CLEANING_S = 60  # time for the running row to end after the limit. When it is over, the whole run ends at once


class Overdue(Exception):
    """The whole run took too long."""


class Row:
    """The size of a row, and its seed."""

    def __init__(self, seed):
        self.short = not os.environ.get("LONG")
        self.scale = float(os.environ.get("SCALE", "1"))
        self.seed = seed

    def size(self, short, long):
        return short if self.short else max(short, int(long * self.scale))


def give_up(*_):
    end_descendants(signal.SIGKILL)
    os._exit(1)


def bound(limit_s):
    """Raises Overdue in this thread after limit_s seconds. 0: no limit."""
    def end(*_):
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(CLEANING_S)
        end_descendants(signal.SIGTERM)
        raise Overdue(f"the whole run took longer than {limit_s} s")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(limit_s)


def main():
    seed = os.environ.get("SEED") or str(random.SystemRandom().randrange(1 << 32))
    row = Row(seed)
    names = sys.argv[1:]
    unknown = set(names) - {run.__name__ for run in ROWS}
    if unknown:
        sys.exit(f"there is no row {', '.join(sorted(unknown))}")
    rows = [run for run in ROWS if run.__name__ in names or not names and not (row.short and run in JUDGES_TIMES + PROGRAMS)]
    print(f"# seed {seed}\n1..{len(rows)}", flush=True)
    failed = 0
    results, written = os.environ.get("RESULTS"), os.environ.get("PAGE")
    this_run = page.new_run(seed, row.scale)
    limit_s, began = int(os.environ.get("LIMIT_S") or (0 if row.short else LIMIT_S)), time.monotonic()
    bound(limit_s)
    for number, run in enumerate(rows, 1):
        started = time.monotonic()
        if limit_s and started - began >= limit_s:
            break
        try:
            figures = run(row)
            seconds = time.monotonic() - started
            print(f"# {page.report(run.__name__, figures)}\n# {seconds:.0f} s\nok {number} - {run.__name__}", flush=True)
            if results:
                page.keep(results, this_run, run.__name__, seconds, figures)
        except Skipped as reason:
            print(f"ok {number} - {run.__name__} # SKIP {reason}", flush=True)
        except Exception:  # pylint: disable=broad-except # any failure is the row's
            failed = 1
            print("# " + traceback.format_exc().replace("\n", "\n# ") + f"\nnot ok {number} - {run.__name__}", flush=True)
    if results and written:
        page.write(results, written)
    sys.exit(failed)


if __name__ == "__main__":
    main()
