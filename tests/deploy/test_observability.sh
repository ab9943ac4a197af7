#!/bin/bash
# test_observability.sh: /metrics has the form that Prometheus requires, and contains all metrics that the dashboard and
# the alerts use.
# shellcheck disable=SC2317 # functions are called by name
set -euo pipefail
cd "$(dirname "$0")/../.."
daemon=${LINFORMERD:-${BUILD:-build}/linformerd}
work=$(mktemp -d)
process=
end() {
    [ -z "$process" ] || { kill "$process" && wait "$process"; } || true
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' PIPE HUP INT TERM

: >"$work/log"
"$daemon" --port 0 >"$work/log" 2>&1 &
process=$!
until url=$(grep -om1 'http://127[^ ]*' "$work/log"); do
    kill -0 "$process" 2>/dev/null || { sed 's/^/# /' "$work/log" && process='' && exit 1; }
    sleep 0.05
done
# After these requests, each metric has samples, except for those of `absent`. A request is counted a moment after its
# answer.
curl -sf "$url/embed" --json '{"inputs": "text"}' -o "$work/answer"
curl -sf "$url/generate" --json '{"inputs": "text", "parameters": {"max_new_tokens": 3}}' -o "$work/answer"
until curl -sf "$url/metrics" >"$work/metrics" && grep -q 'route="/generate"' "$work/metrics"; do sleep 0.05; done

echo 1..4
failed=0
if ! command -v promtool >/dev/null; then
    echo "ok 1 - promtool accepts /metrics # SKIP there is no promtool"
else
    promtool check metrics <"$work/metrics" >"$work/out" 2>&1 || { sed 's/^/# /' "$work/out" && failed=1 && printf 'not '; }
    echo "ok 1 - promtool accepts /metrics"
fi

# missing FILE PATTERN: prints the metrics that the file names but /metrics lacks, except metrics that match the
# pattern.
missing() {
    local name
    while read -r name; do
        grep -qE "^$name(\{| )" "$work/metrics" || echo "# $1 names $name, which is not in /metrics"
    done < <(grep -oE '\b(linformerd|process)_[a-z_]+\b' "$1" | grep -vxE "$2" | sort -u)
}
# The metrics of devices only have samples if there is a GPU, and the metric of the certificate only with TLS. But
# /metrics always declares these metrics.
absent='linformerd_(device_(up|faults_total|recoveries_total)|certificate_expiry_timestamp_seconds)'
number=1
for file in grafana-dashboard.json alerts.yaml; do
    out=$(missing "docker/observability/$file" "$absent")
    names=$(grep -oE '\b(linformerd|process)_[a-z_]+\b' "docker/observability/$file" | sort -u | wc -l)
    [ -z "$out" ] || { echo "$out" && failed=1 && printf 'not '; }
    [ "$names" -ge 8 ] || { failed=1 && printf 'not '; }
    echo "ok $((++number)) - $names metrics that $file names are in /metrics"
done
for name in linformerd_device_up linformerd_certificate_expiry_timestamp_seconds; do
    grep -q "^# TYPE $name gauge" "$work/metrics" || { echo "# $name" && failed=1 && printf 'not '; }
done
echo "ok 4 - /metrics declares metrics that have no samples"
exit $failed
