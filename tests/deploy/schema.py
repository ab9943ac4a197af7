#!/usr/bin/env python3
"""schema.py [--whole] [--faulty] FILE…: checks Kubernetes manifests without a cluster. "-" is standard input.

Kinds of Kubernetes are compared with the models of the package python3-kubernetes: names and types of fields, required
fields and enumerations. Kinds of KServe and of the Prometheus Operator are compared with the tables below.

--whole means that the files are applied together, and that no other files are needed. So the files must contain all
objects that a manifest names. Prints each fault. The exit status is 1 if there is a fault.

--faulty means that each file is checked alone, and must have a fault. The exit status is 1 if a file has none.
"""

import re
import sys

import yaml
from kubernetes import client

# The prefixes of the names of models in python3-kubernetes, for each version of the API. From its version 23 on, it
# contains models of autoscaling/v2. Older versions only contain models of v2beta2, which have the same fields.
PREFIXES = {"v1": ["V1"], "apps/v1": ["V1"], "policy/v1": ["V1"], "autoscaling/v2": ["V2", "V2beta2"]}

# The fields of KServe and of the Prometheus Operator that this project may use. Those of KServe are from
# servingruntime_types.go, predictor.go, podspec.go and component.go in its folder pkg/apis/serving. Those of the
# operator are from podmonitor_types.go in its folder pkg/apis/monitoring/v1.
# "!" marks a required field. A name that begins with V1 is a model of python3-kubernetes.
CUSTOM = {
    "serving.kserve.io/v1alpha1 ServingRuntime": {
        "apiVersion": str, "kind": str, "metadata": "V1ObjectMeta", "!spec": "ServingRuntimeSpec"},
    "ServingRuntimeSpec": {
        "supportedModelFormats": ["SupportedModelFormat"], "multiModel": bool, "disabled": bool,
        "protocolVersions": ["Protocol"], "!containers": ["V1Container"], "volumes": ["V1Volume"],
        "nodeSelector": dict, "affinity": "V1Affinity", "tolerations": ["V1Toleration"], "labels": dict,
        "annotations": dict, "imagePullSecrets": ["V1LocalObjectReference"], "hostIPC": bool},
    "SupportedModelFormat": {"!name": str, "version": str, "autoSelect": bool, "priority": int},
    "Protocol": ("v1", "v2", "grpc-v1", "grpc-v2"),
    "serving.kserve.io/v1beta1 InferenceService": {
        "apiVersion": str, "kind": str, "metadata": "V1ObjectMeta", "!spec": "InferenceServiceSpec"},
    "InferenceServiceSpec": {"!predictor": "PredictorSpec"},
    "PredictorSpec": {
        "!model": "ModelSpec", "minReplicas": int, "maxReplicas": int, "scaleTarget": int, "scaleMetric": "ScaleMetric",
        "containerConcurrency": int, "timeout": int, "canaryTrafficPercent": int, "labels": dict, "annotations": dict,
        "deploymentStrategy": "V1DeploymentStrategy", "tolerations": ["V1Toleration"], "nodeSelector": dict,
        "affinity": "V1Affinity", "serviceAccountName": str, "terminationGracePeriodSeconds": int},
    "ScaleMetric": ("cpu", "memory", "concurrency", "rps"),
    "ModelSpec": {
        "!modelFormat": "ModelFormat", "runtime": str, "storageUri": str, "runtimeVersion": str,
        "protocolVersion": "Protocol", "args": list, "env": ["V1EnvVar"], "resources": "V1ResourceRequirements"},
    "ModelFormat": {"!name": str, "version": str},
    "monitoring.coreos.com/v1 PodMonitor": {
        "apiVersion": str, "kind": str, "metadata": "V1ObjectMeta", "!spec": "PodMonitorSpec"},
    "PodMonitorSpec": {
        "jobLabel": str, "podTargetLabels": list, "!podMetricsEndpoints": ["PodMetricsEndpoint"],
        "!selector": "V1LabelSelector", "namespaceSelector": dict},
    "PodMetricsEndpoint": {
        "!port": str, "path": str, "scheme": "Scheme", "interval": str, "scrapeTimeout": str, "tlsConfig": dict,
        "authorization": dict, "honorLabels": bool, "relabelings": list, "metricRelabelings": list},
    "Scheme": ("http", "https"),
}

STARTUP_S = 300  # time in seconds that a daemon may need to load its models
GRACE_S = 30  # Kubernetes' default of terminationGracePeriodSeconds

SCALARS = {"str": str, "int": int, "float": (int, float), "bool": bool}
faults = 0


def fault(path, message):
    global faults
    faults += 1
    print(f"{path}: {message}")


def check_scalar(value, kind, path):
    is_bool = isinstance(value, bool)
    if not isinstance(value, kind) or (is_bool and kind is not bool):
        fault(path, f"expected {kind}, found {value!r}")


def check_model(value, name, path):
    """Compares an object with the class `name` of python3-kubernetes."""
    model = getattr(client, name)
    if not isinstance(value, dict):
        return fault(path, f"expected {name}, found {value!r}")
    attributes = {field: attribute for attribute, field in model.attribute_map.items()}
    for field, inner in value.items():
        if field in attributes:
            check_type(inner, model.openapi_types[attributes[field]], f"{path}.{field}")
        else:
            fault(path, f"{name} has no field {field!r}")
    try:
        model(**{attributes[field]: inner for field, inner in value.items() if field in attributes})
    except ValueError as error:  # a required field is missing, or a value is not in the enumeration
        fault(path, str(error))


def check_type(value, kind, path):
    """Compares a value with a type in the notation of python3-kubernetes, such as list[V1Container] or dict(str, str).
    Newer versions write List[V1Container] and Dict[str, str]."""
    if value is None or kind in ("object", "datetime", "file"):  # an "object" is an integer or a string
        return
    items = re.fullmatch(r"[Ll]ist\[(.*)\]", kind)
    values = re.fullmatch(r"[Dd]ict[(\[]\w+, (.*)[)\]]", kind)
    if items:
        if not isinstance(value, list):
            return fault(path, f"expected a list, found {value!r}")
        for index, inner in enumerate(value):
            check_type(inner, items.group(1), f"{path}[{index}]")
    elif values:
        if not isinstance(value, dict):
            return fault(path, f"expected an object, found {value!r}")
        for key, inner in value.items():
            check_type(inner, values.group(1), f"{path}.{key}")
    elif kind in SCALARS:
        check_scalar(value, SCALARS[kind], path)
    else:
        check_model(value, kind, path)


def check_custom(value, kind, path):
    if isinstance(kind, list):
        if not isinstance(value, list):
            return fault(path, f"expected a list, found {value!r}")
        for index, inner in enumerate(value):
            check_custom(inner, kind[0], f"{path}[{index}]")
    elif isinstance(kind, type):
        check_scalar(value, kind, path)
    elif kind not in CUSTOM:
        check_type(value, kind, path)
    elif isinstance(CUSTOM[kind], tuple):
        if value not in CUSTOM[kind]:
            fault(path, f"expected one of {', '.join(CUSTOM[kind])}, found {value!r}")
    else:
        fields = {field.lstrip("!"): inner for field, inner in CUSTOM[kind].items()}
        if not isinstance(value, dict):
            return fault(path, f"expected {kind}, found {value!r}")
        for field, inner in value.items():
            if field in fields:
                check_custom(inner, fields[field], f"{path}.{field}")
            else:
                fault(path, f"{kind} has no field {field!r}")
        for field in CUSTOM[kind]:
            if field[0] == "!" and field[1:] not in value:
                fault(path, f"{kind} lacks {field[1:]}")


def containers_of(document):
    spec = document["spec"]
    return spec["template"]["spec"]["containers"] if document["kind"] == "Deployment" else spec["containers"]


def check_startup(document, path):
    """Beside a liveness probe, the startup probe must leave a daemon enough time to load its models."""
    for container in containers_of(document):
        startup = container.get("startupProbe", {})
        startup_s = startup.get("periodSeconds", 10) * startup.get("failureThreshold", 3) if startup else 0
        if "livenessProbe" in container and startup_s < STARTUP_S:
            fault(path, f"startupProbe: expected at least {STARTUP_S} seconds, found {startup_s}")


def check_probes(document, settings, path):
    """The probes must use TLS if the daemon does."""
    for container in containers_of(document):
        names = {entry["name"] for entry in container.get("env", [])} | set(settings)
        encrypted = "LINFORMERD_TLS_CERTIFICATE" in names or "--tls-certificate" in container.get("args", [])
        expected = "HTTPS" if encrypted else "HTTP"
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            found = container.get(name, {}).get("httpGet", {}).get("scheme", "HTTP")
            if name in container and found != expected:
                fault(path, f"{name}: expected the scheme {expected}, found {found}")


def setting_ms(container, settings, name, default):
    """The value of a setting in milliseconds. A flag has priority over a variable of the container, and this variable
    over the ConfigMap."""
    flag, variable = f"--{name}", "LINFORMERD_" + name.upper().replace("-", "_")
    arguments = container.get("args", [])
    if flag in arguments:
        return int(arguments[arguments.index(flag) + 1])
    own = {entry["name"]: entry.get("value") for entry in container.get("env", [])}
    return int(own.get(variable, settings.get(variable, default)))


def sleep_s(container):
    return int(container["lifecycle"]["preStop"]["exec"]["command"][1]) if "lifecycle" in container else 0


def check_end(pod, containers, settings, path):
    """terminationGracePeriodSeconds must leave a pod enough time to finish its requests after the signal to stop."""
    needed_s = max(sleep_s(container) + (setting_ms(container, settings, "drain-delay-ms", 0) +
                                         setting_ms(container, settings, "request-timeout-ms", 60000)) / 1000
                   for container in containers)
    found_s = pod.get("terminationGracePeriodSeconds", GRACE_S)
    if found_s < needed_s:
        fault(path, f"terminationGracePeriodSeconds: expected at least {needed_s}, found {found_s}")


def check_service(document, documents, path):
    """Compares terminationGracePeriodSeconds of an InferenceService with the settings of its ServingRuntime. This field
    needs the mode RawDeployment, because Knative sets it in other modes."""
    predictor = document["spec"]["predictor"]
    mode = (document["metadata"].get("annotations") or {}).get("serving.kserve.io/deploymentMode")
    if mode != "RawDeployment" and "terminationGracePeriodSeconds" in predictor:
        fault(path, "terminationGracePeriodSeconds: expected serving.kserve.io/deploymentMode: RawDeployment")
    runtime = predictor["model"].get("runtime")
    found = [other for _, other in documents
             if other["kind"] == "ServingRuntime" and other["metadata"]["name"] == runtime]
    if not found:
        return fault(path, f"the ServingRuntime {runtime!r} is in none of the files")
    check_end(predictor, containers_of(found[0]), {}, path)


def check_times(document, documents, settings, path):
    kind = document["kind"]
    if kind in ("Deployment", "ServingRuntime"):
        check_startup(document, path)
        check_probes(document, settings, path)
    if kind == "Deployment":
        check_end(document["spec"]["template"]["spec"], containers_of(document), settings, path)
    if kind == "InferenceService":
        check_service(document, documents, path)


# ---- References

def check_selector(labels, pods, path):
    """A selector must select at least one pod of these files, and must not be empty."""
    if not labels or not any(labels.items() <= pod.items() for pod in pods):
        fault(path, f"selector: expected labels of a pod, found {labels}")


def check_references(document, documents, path):
    kind, spec = document["kind"], document.get("spec", {})
    deployments = {other["metadata"]["name"]: other["spec"] for _, other in documents if other["kind"] == "Deployment"}
    pods = [deployment["template"]["metadata"].get("labels", {}) for deployment in deployments.values()]
    maps = [other["metadata"]["name"] for _, other in documents if other["kind"] == "ConfigMap"]
    if kind == "Service":
        check_selector(spec.get("selector"), pods, path)
    elif kind in ("Deployment", "PodDisruptionBudget"):
        check_selector(spec["selector"].get("matchLabels"), pods, path)
    elif kind == "PodMonitor":
        check_selector(spec["selector"].get("matchLabels"), pods, path)
        ports = [port.get("name") for deployment in deployments.values() for container in
                 deployment["template"]["spec"]["containers"] for port in container.get("ports", [])]
        for endpoint in spec["podMetricsEndpoints"]:
            if endpoint["port"] not in ports:
                fault(path, f"port: expected one of {ports}, found {endpoint['port']!r}")
    elif kind == "HorizontalPodAutoscaler":
        target = spec["scaleTargetRef"]["name"]
        if target not in deployments or "replicas" in deployments[target]:
            fault(path, f"scaleTargetRef: expected a Deployment without replicas, found {target!r}")
    if kind == "Deployment":
        for source in (source for container in containers_of(document) for source in container.get("envFrom", [])):
            if source["configMapRef"]["name"] not in maps:
                fault(path, f"configMapRef: expected one of {maps}, found {source['configMapRef']['name']!r}")


def check(files, whole):
    """Checks the files together. Returns whether they contain manifests, and these have no faults."""
    global faults
    faults = 0
    documents = []
    for file in files:
        with sys.stdin if file == "-" else open(file, encoding="utf-8") as stream:
            documents += [(file, document) for document in yaml.safe_load_all(stream) if document]
    settings = {}
    for file, document in documents:
        if document.get("kind") == "ConfigMap":
            settings.update(document.get("data", {}))
    for file, document in documents:
        version, kind = document.get("apiVersion", ""), document.get("kind", "")
        path = f"{file}: {kind}"
        models = [prefix + kind for prefix in PREFIXES.get(version, []) if hasattr(client, prefix + kind)]
        if f"{version} {kind}" in CUSTOM:
            check_custom(document, f"{version} {kind}", path)
        elif models:
            check_model(document, models[0], path)
        else:
            fault(path, f"unknown: {version} {kind}")
        if not faults:
            check_times(document, documents, settings, path)
        if whole and not faults:
            check_references(document, documents, path)
    print(f"{len(documents)} manifests, {faults} faults")
    return bool(documents) and faults == 0


def main():
    options = [argument for argument in sys.argv[1:] if argument.startswith("--")]
    files = sys.argv[1 + len(options):]
    whole = "--whole" in options
    if "--faulty" not in options:
        return 0 if check(files, whole) else 1
    found = [not check([file], whole) and faults > 0 for file in files]
    for file in [file for file, is_found in zip(files, found) if not is_found]:
        print(f"{file}: no fault was found")
    return 0 if found and all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
