#!/bin/bash
# test_autoscaling.sh: the metric that decides about the number of replicas reaches the autoscaler. Prometheus reads a
# daemon with the configuration for Kubernetes. The rule of prometheus-adapter must find the series of this metric and
# their labels, and its query must return one value for each pod. The HorizontalPodAutoscaler must ask for the metric of
# this rule. A file tells Prometheus the two pods, with the labels that Kubernetes would set. The adapter itself is not
# tested.
# shellcheck disable=SC2317 # functions are called by name
set -euo pipefail
cd "$(dirname "$0")/../.."
daemon=${LINFORMERD:-${BUILD:-build}/linformerd}
autoscaling=docker/kubernetes/autoscaling
python=/usr/bin/python3
skip() {
    echo 1..1
    echo "ok 1 - the metric for autoscaling reaches the autoscaler # SKIP there is no $1 (docker/packages.sh deploy)"
    exit 0
}
for program in prometheus promtool perl "$python"; do command -v "$program" >/dev/null || skip "$program"; done
$python -c 'import yaml' 2>/dev/null || skip python3-yaml
work=$(mktemp -d)
processes=()
end() {
    local process
    for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
    wait
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' PIPE HUP INT TERM
number=0 failed=0
is() { # is NAME COMMAND…: runs one test
    "${@:2}" >"$work/said" 2>&1 || { sed 's/^/# /' "$work/said" && printf 'not ' && failed=1; }
    echo "ok $((++number)) - $1"
}

# value FILE EXPRESSION: prints the value of a Python expression, in which `x` is the content of a YAML file.
value() {
    $python -c 'import sys, yaml; x = yaml.safe_load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"
}
rule=$autoscaling/prometheus-adapter.yaml
series=$(value $rule 'x["rules"]["custom"][0]["seriesQuery"]')
labels=$(value $rule '" ".join(sorted(x["rules"]["custom"][0]["resources"]["overrides"]))')
name=$(value $rule 'x["rules"]["custom"][0].get("name")')
asked=$(value docker/kubernetes/components/autoscaling/horizontal-pod-autoscaler.yaml 'x["spec"]["metrics"][0]["pods"]["metric"]["name"]')
# The adapter replaces the marks <<.…>> of a query. The pods of this query are those of the HorizontalPodAutoscaler's
# Deployment.
query=$(value $rule 'x["rules"]["custom"][0]["metricsQuery"]' |
    sed "s/<<.GroupBy>>/pod/; s/<<.Series>>/$asked/; s/<<.LabelMatchers>>/namespace=\"models\",pod=~\"one|two\"/")

: >"$work/log"
"$daemon" --port 0 >"$work/log" 2>&1 &
processes+=($!)
until url=$(grep -om1 'http://127[^ ]*' "$work/log"); do
    kill -0 "${processes[0]}" 2>/dev/null || { sed 's/^/# /' "$work/log" && exit 1; }
    sleep 0.05
done

# target POD APPLICATION PORT_NAME PHASE: prints a target with the labels of a pod. All targets are this daemon. Only
# "one" and "two" are pods to be read. The third target is another port of a pod, the fourth is another application, and
# the others are pods that do not run.
target() {
    printf '{"targets": ["%s"], "labels": {"__meta_kubernetes_namespace": "models", "__meta_kubernetes_pod_name": "%s",
        "__meta_kubernetes_pod_label_app_kubernetes_io_name": "%s", "__meta_kubernetes_pod_container_port_name": "%s",
        "__meta_kubernetes_pod_phase": "%s"}}' \
        "${url#http://}" "$@"
}
{
    echo "[$(target one linformerd http Running), $(target two linformerd http Running),"
    echo "$(target one linformerd other Running), $(target three x http Running),"
    echo "$(target four linformerd http Pending), $(target five linformerd http Succeeded),"
    echo "$(target six linformerd http Failed)]"
} >"$work/targets.json"
$python - docker/observability/prometheus-kubernetes.yaml "$work" <<'X'
import os, sys, yaml
with open(sys.argv[1]) as file:
    configuration = yaml.safe_load(file)
configuration["global"] = {"scrape_interval": "1s"}
configuration["rule_files"] = [os.path.abspath("docker/observability/alerts.yaml")]
job, = configuration["scrape_configs"]
assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
job["file_sd_configs"] = [{"files": [sys.argv[2] + "/targets.json"]}]
with open(sys.argv[2] + "/prometheus.yaml", "w") as file:
    yaml.safe_dump(configuration, file)
X
# shellcheck disable=SC2016
port=$(perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport')
prometheus --config.file="$work/prometheus.yaml" --storage.tsdb.path="$work/data" \
    --web.listen-address="127.0.0.1:$port" >"$work/prometheus.log" 2>&1 &
processes+=($!)
server=http://127.0.0.1:$port
# ask EXPRESSION: prints the samples of a query, one on each line, in the form LABELS => VALUE.
ask() { promtool query instant "$server" "$1" 2>/dev/null; }
until ask 'min(count_over_time(up{job="linformerd"}[1m])) >= 2' | grep -q '=>'; do
    kill -0 "${processes[1]}" 2>/dev/null || { sed 's/^/# /' "$work/prometheus.log" && exit 1; }
    sleep 0.2
done

targets_are_the_pods() {
    ask 'up' | sort | tee "$work/up"
    [ "$(grep -c 'namespace="models".* => 1 ' "$work/up")" = 2 ] && [ "$(wc -l <"$work/up")" = 2 ]
}
series_have_the_labels() { # each of the two pods has two models
    local label
    ask "$series" | tee "$work/series"
    [ "$(wc -l <"$work/series")" = 4 ] || return 1
    for label in $labels; do [ "$(grep -c "[{ ]$label=\"" "$work/series")" = 4 ] || return 1; done
}
the_query_gives_a_value_for_each_pod() {
    ask "$query" | tee "$work/values"
    [ "$(grep -cE '^\{pod="(one|two)"\} => [0-9]+ ' "$work/values")" = 2 ] && [ "$(wc -l <"$work/values")" = 2 ]
}
# If the rule has no `name`, the adapter gives the metric the name of the series.
the_metric_is_the_one_that_is_asked_for() {
    echo "asked: $asked, series: $series, name: $name"
    [ "${series%%\{*}" = "$asked" ] && [ "$name" = None ]
}

is "Prometheus reads only the port http of each running pod" targets_are_the_pods
is "the adapter's rule finds series with the labels: $labels" series_have_the_labels
is "the adapter's query returns one value for each pod" the_query_gives_a_value_for_each_pod
is "the HorizontalPodAutoscaler asks for the metric of the adapter's rule" the_metric_is_the_one_that_is_asked_for
echo "1..$number"
exit $failed
