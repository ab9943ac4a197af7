#!/bin/bash
# log_lines.sh: docs/operations.md has a row for every message that the sources log, and no other.
set -euo pipefail
page=docs/operations.md

# Sources without line ends and comments, so that a call is one piece.
sources=$(find server -name '*.c' -exec cat {} + | tr '\n' ' ' | sed 's|/\*[^*]*\*/||g')

# A message is the first string after a level. log_announce has no level.
logged=$(grep -oE 'LOG_LEVEL_[A-Z]+, +"[^"]*"' <<<"$sources" | sed 's/.*, *"\(.*\)"/\1/' | sort -u)

# "message" of the table's rows. An ellipsis at the end stands for the rest of a message.
listed=$(awk '/^\| message \| level/ { inside = 1 } /^$/ { inside = 0 } inside && /^\| `/ { split($0, parts, "`"); print parts[2] }' "$page")

echo 1..2
failed=0
missing=
while read -r message; do
    found=
    while read -r row; do
        row=${row%…}
        [ "${message#"$row"}" = "$message" ] || found=1
    done <<<"$listed"
    [ -n "$found" ] || missing+="# $page lacks \"$message\""$'\n'
done <<<"$logged"
if [ -n "$missing" ] || [ "$(wc -l <<<"$logged")" -lt 5 ]; then printf 'not ' && failed=1; fi
echo "ok 1 - $(wc -l <<<"$logged") messages are listed"
printf '%s' "$missing"

surplus=
while read -r row; do
    grep -qF "\"${row%…}" <<<"$sources" || surplus+="# $page has \"$row\", which nothing logs"$'\n'
done <<<"$listed"
if [ -n "$surplus" ] || [ "$(wc -l <<<"$listed")" -lt 5 ]; then printf 'not ' && failed=1; fi
echo "ok 2 - $(wc -l <<<"$listed") rows are messages"
printf '%s' "$surplus"
exit $failed
