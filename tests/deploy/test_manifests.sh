#!/bin/bash
# test_manifests.sh: the files in docker/ have the form that their programs require. If such a program is missing, the
# test that needs it is skipped. `docker/packages.sh deploy` installs all programs.
# shellcheck disable=SC2317 # functions are called by name
set -euo pipefail
cd "$(dirname "$0")/../.."
kubernetes=docker/kubernetes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0 failed=0

# python3-kubernetes is a package of the distribution, so another python3 in the PATH may lack it. MANIFESTS_PYTHON
# names a python3 that has another version of the package.
python=${MANIFESTS_PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=python3

# run NAME PROGRAM COMMAND…: runs a test that needs a program.
run() {
    local name=$1 program=$2
    shift 2
    if ! command -v "$program" >/dev/null; then
        echo "ok $((++number)) - $name # SKIP there is no $program"
    elif "$@" >"$work/out" 2>&1; then
        echo "ok $((++number)) - $name"
    else
        sed 's/^/# /' "$work/out"
        echo "not ok $((++number)) - $name"
        failed=1
    fi
}

# run_schema NAME PROGRAM COMMAND…: like `run`, for a test that also needs python3-kubernetes.
run_schema() {
    if "$python" -c 'import kubernetes, yaml' 2>/dev/null; then
        run "$@"
    else
        echo "ok $((++number)) - $1 # SKIP there is no python3-kubernetes"
    fi
}

kustomization_is_valid() { # FOLDER KIND…: the manifests contain these kinds
    local kind
    kubectl kustomize "$kubernetes/$1" >"$work/manifests.yaml" || return 1
    "$python" tests/deploy/schema.py --whole "$work/manifests.yaml" || return 1
    shift
    for kind in "$@"; do
        grep -qx "kind: $kind" "$work/manifests.yaml" || { echo "there is no $kind" && return 1; }
    done
}

# faults_are_found GOOD [--whole]: standard input has an expression of sed in each line, which makes one fault in the
# manifests GOOD. The check must find each fault.
faults_are_found() {
    local fault name count=0
    rm -f "$work"/bad*.yaml
    while read -r fault; do
        name=$work/bad$((++count)).yaml
        { echo "# $fault" && sed "$fault" "$1"; } >"$name"
        ! cmp -s "$1" <(tail -n +2 "$name") || { echo "nothing changed: $fault" && return 1; }
    done
    "$python" tests/deploy/schema.py "${@:2}" --faulty "$work"/bad*.yaml || { head -n 1 "$work"/bad*.yaml && return 1; }
}

# The check must find each of these faults in a manifest that is otherwise good. So a check that checks nothing fails.
schema_finds_faults() {
    local good=$work/good.yaml
    { cat "$kubernetes/base/deployment.yaml" && echo --- && cat "$kubernetes/kserve/serving-runtime.yaml" && echo --- &&
        cat "$kubernetes/kserve/inference-service.yaml" && echo --- && cat docker/observability/pod-monitor.yaml; } >"$good"
    "$python" tests/deploy/schema.py "$good" || return 1
    faults_are_found "$good" <<'EOF'
s/readinessProbe:/readynessProbe:/
s/replicas: 3/replicas: three/
0,/terminationGracePeriodSeconds: 90/s//terminationGracePeriodSeconds: 20/
/^    terminationGracePeriodSeconds: 90/s/90/64/
/^    terminationGracePeriodSeconds: 90/d
s/"--drain-delay-ms", "5000"/"--drain-delay-ms", "31000"/
/deploymentMode: RawDeployment/d
s/runtime: linformerd/runtime: linformer/
0,/failureThreshold: 300/s//failureThreshold: 30/
s/^        failureThreshold: 300/        failureThreshold: 30/
/^      startupProbe:/,+3d
s/name: http, containerPort: 8080/name: http/
s/protocolVersions: \[v2\]/protocolVersions: [v3]/
s/autoSelect: true/autoSelect: "yes"/
0,/path: .health.live, /s//&scheme: HTTPS, /
s/"--drain-delay-ms", "5000"/&, "--tls-certificate", "a", "--tls-key", "b"/
s/modelFormat: {name: linformer}/format: {name: linformer}/
s/minReplicas: 3/minReplicas: "3"/
s/kind: InferenceService/kind: InferenceServices/
s/podMetricsEndpoints:/podMetricsEndpoint:/
s/interval: 15s/interval: 15/
EOF
}

# Each fault is a wrong reference to another object, or replicas beside an autoscaler, in the manifests of the
# autoscaling overlay and the PodMonitor.
references_are_checked() {
    local good=$work/good.yaml
    { kubectl kustomize "$kubernetes/autoscaling" && echo --- && cat docker/observability/pod-monitor.yaml; } >"$good" ||
        return 1
    "$python" tests/deploy/schema.py --whole "$good" || return 1
    faults_are_found "$good" --whole <<'EOF'
/^kind: Service/,/^---/{/^  selector:/,$s/name: linformerd/name: other/}
/^kind: PodDisruptionBudget/,/^---/{/^  selector:/,$s/name: linformerd/name: other/}
/configMapRef:/,+1s/name: linformerd/name: other/
/scaleTargetRef:/,+3s/name: linformerd/name: other/
/^kind: Deployment/,/^---/s/^spec:/&\n  replicas: 3/
/^kind: PodMonitor/,$s/name: linformerd}/name: other}/
/^kind: PodMonitor/,$s/port: http/port: metrics/
EOF
}

tls_is_checked() { # a fault is found if one probe lacks its scheme
    local number
    kubectl kustomize "$kubernetes/tls" >"$work/good.yaml" || return 1
    [ "$(grep -c 'scheme: HTTPS' "$work/good.yaml")" = 3 ] || { echo "three probes were expected" && return 1; }
    for number in 1 2 3; do
        awk -v number="$number" '!/scheme: HTTPS/ || ++found != number' "$work/good.yaml" >"$work/bad.yaml"
        ! "$python" tests/deploy/schema.py --whole "$work/bad.yaml" >"$work/faults" || return 1
        grep -q 'Probe: expected the scheme HTTPS, found HTTP' "$work/faults" || { cat "$work/faults" && return 1; }
    done
}

# The overlay for GPUs has its own image, whatever the name of the base's image is. An installation changes this name.
gpu_image_is_kept() {
    local copy=$work/kubernetes image
    cp -r "$kubernetes" "$copy"
    sed -i 's|newName: .*|newName: mine.example/daemon|; s|newTag: .*|newTag: mine|' "$copy/base/kustomization.yaml"
    kubectl kustomize "$copy/base" | grep -qx ' *image: mine.example/daemon:mine' || return 1
    image=$(kubectl kustomize "$copy/gpu" | sed -n 's/^ *image: //p')
    [[ $image == *-cuda:* ]] || { echo "expected the image for GPUs, found $image" && return 1; }
}

# Makes the file that an operator writes beside the overlays. docs/deployment.md shows such a file.
components_combine() { # COMPONENT…
    local component copy=$work/combined
    rm -rf "$copy" && cp -r "$kubernetes" "$copy" && mkdir "$copy/mine"
    {
        printf 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../base]\ncomponents:\n'
        for component in "$@"; do echo "  - ../components/$component"; done
    } >"$copy/mine/kustomization.yaml"
    kubectl kustomize "$copy/mine" >"$work/manifests.yaml" || return 1
    "$python" tests/deploy/schema.py --whole "$work/manifests.yaml"
}
autoscaling_and_tls() {
    components_combine autoscaling tls || return 1
    grep -qx 'kind: HorizontalPodAutoscaler' "$work/manifests.yaml" && grep -q 'LINFORMERD_TLS_KEY' "$work/manifests.yaml"
}
all_components() {
    components_combine autoscaling gpu tls || return 1
    grep -q 'LINFORMERD_DEVICE: cuda' "$work/manifests.yaml" && grep -q 'LINFORMERD_TLS_KEY' "$work/manifests.yaml"
}

settings_exist() { # each variable LINFORMERD_… in docker/ is a setting
    local name missing=
    while read -r name; do
        grep -qF "\`$name\`" docs/configuration.md || missing+=" $name"
    done < <(grep -rohE 'LINFORMERD_[A-Z_]+' docker/*.yaml docker/Dockerfile* docker/kubernetes docker/haproxy docker/nginx docker/observability | sort -u)
    [ -z "$missing" ] || { echo "not in docs/configuration.md:$missing" && return 1; }
}

compose_is_valid() {
    docker-compose -f docker/compose.yaml config -q && docker-compose -f docker/compose.cluster.yaml config -q &&
        docker-compose -f docker/compose.yaml -f docker/compose.cuda.yaml config -q
}

# If a variable that changes a limit is set, compose must pass it to HAProxy.
limits_reach_haproxy() {
    local name
    for name in PROXY_BUFFER PROXY_TIMEOUT PROXY_GENERATION_TIMEOUT; do
        grep -q "$name-" docker/haproxy/haproxy.cfg || { echo "haproxy.cfg does not read $name" && return 1; }
        env "$name=17" docker-compose -f docker/compose.cluster.yaml config >"$work/compose" || return 1
        grep -q "$name: .*17" "$work/compose" ||
            { echo "$name does not arrive" && return 1; }
    done
}

nginx_accepts() { # replaces host names by addresses, because nginx resolves names when it checks its configuration
    sed "s/linformerd-\([123]\):8080/127.0.0.1:900\1/; s|/tmp/nginx|$work/nginx|" docker/nginx/nginx.conf \
        >"$work/nginx.conf"
    nginx -t -p "$work" -c "$work/nginx.conf"
}

haproxy_accepts() { haproxy -c -f docker/haproxy/haproxy.cfg; }
prometheus_accepts() { promtool check config docker/observability/prometheus.yaml; }
alerts_fire() { promtool test rules docker/observability/alerts_test.yaml; }

# Each alert must have a test case in which it fires.
alerts_are_tested() {
    local alert
    while read -r alert; do
        grep -A 2 "alertname: $alert\$" docker/observability/alerts_test.yaml | grep -q 'exp_alerts:$' ||
            { echo "alerts_test.yaml has no case in which $alert fires" && return 1; }
    done < <(awk '$2 == "alert:" { print $3 }' docker/observability/alerts.yaml)
}

# run_with_kustomize NAME COMMAND…: runs a test that needs kubectl 1.22. The kustomize of older versions does not
# support `labels` and `patches`. Debian 12 has kubectl 1.20.
run_with_kustomize() {
    local version
    version=$(kubectl version --client -o json 2>/dev/null | awk -F '"' '$2 == "minor" { print $4 + 0 }') || true
    if [ "${version:-99}" -lt 22 ]; then
        echo "ok $((++number)) - $1 # SKIP kubectl is older than 1.22"
    else
        run_schema "$1" kubectl "${@:2}"
    fi
}
run_kustomization() { run_with_kustomize "$1" kustomization_is_valid "${@:2}"; }

# The files that are complete manifests. gpu.yaml and tls.yaml are patches.
plain_files() {
    find "$kubernetes" docker/observability/pod-monitor.yaml -name '*.yaml' ! -name 'kustomization.yaml' ! -name prometheus-adapter.yaml \
        ! -name gpu.yaml ! -name tls.yaml
}
plain_files_are_valid() { plain_files | xargs "$python" tests/deploy/schema.py; }

run_schema "each file has the form of Kubernetes or KServe" "$python" plain_files_are_valid
run_kustomization "the base is valid and has all its objects" base ConfigMap Deployment PodDisruptionBudget Service
run_kustomization "the overlay with autoscaling is valid and has all its objects" autoscaling Deployment HorizontalPodAutoscaler
run_kustomization "the overlay for GPUs is valid and has all its objects" gpu ConfigMap Deployment PodDisruptionBudget Service
run_kustomization "the overlay with TLS is valid and has all its objects" tls ConfigMap Deployment PodDisruptionBudget Service
run_with_kustomize "the overlay for GPUs keeps its own image if the base has another" gpu_image_is_kept
run_with_kustomize "the components for autoscaling and TLS can be combined" autoscaling_and_tls
run_with_kustomize "all three components can be combined" all_components
run_with_kustomize "a probe without HTTPS in the overlay with TLS is found" tls_is_checked
run_with_kustomize "wrong references between objects are found" references_are_checked
run_schema "wrong keys and values in manifests are found" "$python" schema_finds_faults
run "each LINFORMERD_… in docker/ is a setting" grep settings_exist
run "docker-compose accepts the compose files" docker-compose compose_is_valid
run "the compose file passes changed limits to HAProxy" docker-compose limits_reach_haproxy
run "HAProxy accepts its configuration" haproxy haproxy_accepts
run "nginx accepts its configuration" nginx nginx_accepts
run "Prometheus accepts its configuration" promtool prometheus_accepts
run "alerts fire when they should" promtool alerts_fire
run "each alert has a test case in which it fires" awk alerts_are_tested
echo "1..$number"
exit $failed
