#!/bin/bash
# test_load.sh: tests that the load scripts work, count correctly, and fail if answers are not 200. The test does not
# cover speed.
set -euo pipefail
here=$(dirname "$0")
# lib.sh makes the folder $work, and removes it at the end. Its load_start starts the daemon of the fifth test.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh"
export REQUESTS=24 CONCURRENCY=4 MAX_LENGTH=256
out=$work/out
failed=0

# result NUMBER NAME PATTERN…: expects each pattern in the output.
result() {
    local number=$1 name=$2 pattern missing=
    shift 2
    for pattern in "$@"; do grep -qE "$pattern" "$out" || missing="$missing '$pattern'"; done
    [ -z "$missing" ] || { sed 's/^/# /' "$out" && echo "# lacks$missing" && printf 'not ' && failed=1; }
    echo "ok $number - $name"
}

# The scripts start this wrapper as the daemon. It records its process id.
real=${LINFORMERD:-build/linformerd}
printf '#!/bin/bash\necho $$ >>"%s"\nexec "%s" "$@"\n' "$work/started" "$real" >"$work/linformerd"
chmod +x "$work/linformerd"
export LINFORMERD=$work/linformerd

# script NAME: runs NAME.sh. Writes its output and, in the last line, its exit status to the file $out.
script() { { "$here/$1.sh" 2>&1 && echo "exit 0" || echo "exit $?"; } >"$out"; }

echo 1..6
number=0
for name in embed logits mixed; do
    script $name
    result $((++number)) "$name.sh starts a daemon and counts 24 answers" ' 24 requests, 4 at a time: [0-9.]+ requests/s' \
        'p50 [0-9.]+ +p90 [0-9.]+ +p99 [0-9.]+ ' 'errors 0$' '^exit 0$'
done

: >"$out"
while read -r process; do
    ! kill -0 "$process" 2>/dev/null || echo "process $process is left" >>"$out"
done <"$work/started"
[ "$(wc -l <"$work/started")" = 3 ] && [ ! -s "$out" ] && echo "none is left" >>"$out"
result 4 "the daemons of the scripts end with the scripts" '^none is left$'

load_start
URL=$URL/absent script embed
result 5 "answers of 404 are counted as errors" 'errors 24$' 'status 404: 24$' '^exit 1$'

kill "$daemon"
wait "$daemon" || true
daemon=
URL=$URL script embed
result 6 "answers that never come are counted as errors" 'errors 24$' 'status 000: 24$' '^exit 1$'
exit $failed
