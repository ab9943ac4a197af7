#!/usr/bin/env python3
"""Faults and hostile clients against a daemon that serves. One TAP test each; its comment says how often and what was lost.

reliability.py [NAME…]: the rows of these names, otherwise all that judge without a clock, and with LONG=1 all.
SEED=…: repeats a run. LONG=1: minutes in place of seconds. SCALE=0.1: a long run of a tenth of the size.
LINFORMERD: the daemon."""

import os
import random
import sys
import time
import traceback

sys.dont_write_bytecode = True
import clients  # noqa: E402
import overload  # noqa: E402
import resources  # noqa: E402
import traffic  # noqa: E402
from daemon import Skipped  # noqa: E402

ROWS = [traffic.mixed_traffic, clients.slow_clients, clients.idle_connections, clients.vanishing_clients,
        clients.bodies_at_the_limit, clients.requests_in_one_piece, clients.smuggled_requests, resources.few_descriptors,
        resources.little_memory, resources.no_threads, resources.full_log, resources.small_disk, resources.blocked_log,
        resources.damaged_models, resources.jumping_clock, overload.overload, overload.overload_by_time]
JUDGES_TIMES = [overload.overload, overload.overload_by_time]


class Row:
    """How large a row is, and its seed."""

    def __init__(self, seed):
        self.short = not os.environ.get("LONG")
        self.scale = float(os.environ.get("SCALE", "1"))
        self.seed = seed

    def size(self, short, long):
        return short if self.short else max(short, int(long * self.scale))


def main():
    seed = os.environ.get("SEED") or str(random.SystemRandom().randrange(1 << 32))
    row = Row(seed)
    names = sys.argv[1:]
    unknown = set(names) - {run.__name__ for run in ROWS}
    if unknown:
        sys.exit(f"there is no row {', '.join(sorted(unknown))}")
    rows = [run for run in ROWS if run.__name__ in names or not names and not (row.short and run in JUDGES_TIMES)]
    print(f"# seed {seed}\n1..{len(rows)}", flush=True)
    failed = 0
    for number, run in enumerate(rows, 1):
        started = time.monotonic()
        try:
            print(f"# {run(row)}\n# {time.monotonic() - started:.0f} s\nok {number} - {run.__name__}", flush=True)
        except Skipped as reason:
            print(f"ok {number} - {run.__name__} # SKIP {reason}", flush=True)
        except Exception:  # pylint: disable=broad-except; any failure is the row's
            failed = 1
            print("# " + traceback.format_exc().replace("\n", "\n# ") + f"\nnot ok {number} - {run.__name__}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
