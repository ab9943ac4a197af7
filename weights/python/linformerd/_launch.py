"""Becomes the daemon, which the kernel then ends together with the process that started it.

Arguments: the id of that process, the program, and the program's arguments."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>. It outlives exec

parent, program = int(sys.argv[1]), sys.argv[2]
if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) != 0:
    sys.exit("linformerd: the kernel refuses PR_SET_PDEATHSIG")
if os.getppid() != parent:
    sys.exit("linformerd: the process that started the daemon has ended")
os.execv(program, sys.argv[2:])
