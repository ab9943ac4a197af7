#!/bin/bash
# systemd.sh: systemd reads the units of docker/systemd without a message, and rates the exposure of the service as low.
# The package creates the group of the socket. The service runs only programs that even a minimal system contains.
# systemd does not stop restarting the service during a temporary fault.
set -euo pipefail
units=docker/systemd
most=2.9 # highest allowed exposure, on systemd's scale from 0 to 10

echo 1..6
if ! command -v systemd-analyze >/dev/null; then
    for test in 1 2 3 4 5 6; do echo "ok $test # SKIP systemd-analyze is missing"; done
    exit 0
fi
failed=0
result() {
    if [ "$2" = 0 ]; then
        echo "ok $1 - $3"
    else
        echo "not ok $1 - $3"
        failed=1
    fi
}

# The command verify requires that the program of the service is installed, so a copy of the unit names /bin/true.
copies=$(mktemp -d)
trap 'rm -rf "$copies"' EXIT
cp "$units"/linformerd.{service,socket} "$copies"
sed -i 's|^ExecStart=linformerd|ExecStart=/bin/true|' "$copies/linformerd.service"
verify() {
    said=$(systemd-analyze verify --man=no "$copies"/linformerd.{service,socket} 2>&1) && [ -z "$said" ]
}

status=0
verify || status=1
[ "$status" = 0 ] || echo "$said" >&2
result 1 "$status" "systemd reads the units without a message"

status=0
exposure=$(systemd-analyze security --no-pager --offline=true "$units/linformerd.service" 2>/dev/null |
    sed -nE 's/.*Overall exposure level.*: ([0-9.]+) .*/\1/p')
awk -v exposure="${exposure:-10}" -v most="$most" 'BEGIN { exit !(exposure <= most) }' || status=1
result 2 "$status" "the exposure of the service is ${exposure:-unknown}, at most $most is allowed"

# The command verify finds a fault. Otherwise the first test could not fail.
status=0
sed -i 's/^Type=notify$/Type=notified/' "$copies/linformerd.service"
verify && status=1
result 3 "$status" "an unknown type of service is found"

# Without the group, the sockets do not start. A line of type u creates a user, and a group of the same name.
status=0
group=$(sed -n 's/^SocketGroup=//p' "$units/linformerd.socket")
grep -qE "^[ug] ${group:-none} " docker/debian/linformerd.sysusers || status=1
result 4 "$status" "the package makes the socket's group"

# Every system contains /bin/sh. Other programs are in packages that may be missing, such as /bin/kill.
status=0
others=$(sed -nE 's/^Exec[A-Za-z]*=([^ ]*).*/\1/p' "$units/linformerd.service" | grep -vxE 'linformerd|/bin/sh') && status=1
result 5 "$status" "the service runs only the daemon and /bin/sh${others:+, found $others}"

# By default, systemd refuses the sixth start of a service within 10 seconds.
status=0
pause=$(sed -n 's/^RestartSec=//p' "$units/linformerd.service")
[ "$((5 * ${pause:-0}))" -gt 10 ] || status=1
result 6 "$status" "5 starts take longer than 10 seconds, found a pause of ${pause:-none}"
exit "$failed"
