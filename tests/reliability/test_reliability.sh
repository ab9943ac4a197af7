#!/bin/bash
# test_reliability.sh: the short form of docs/reliability.md. Measurements of time are left out.
exec "$(dirname "$0")/reliability.py" "$@"
