"""Asks the kernel to end this process with the process that started it, and then becomes the daemon.

Arguments: the id of the process that started this one, the program, and the program's arguments."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>. It stays in effect after exec

parent, program = int(sys.argv[1]), sys.argv[2]
if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) != 0:
    sys.exit("linformerd: the kernel refuses PR_SET_PDEATHSIG")
if os.getppid() != parent:
    sys.exit("linformerd: the process that started the daemon has ended")
os.execv(program, sys.argv[2:])
