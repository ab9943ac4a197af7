"""Runs schemathesis on /openapi.json: requests that the document allows and forbids, with all checks of the answers.

SEED chooses the requests (default 1). EXAMPLES is the number of random requests for each route, in addition to the
requests that cover the document's keywords (default 5). The document is valid for any model, so `narrowed` first adds
the limits of the served models.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request

from openapi_spec_validator import validate

import support

SEED = os.environ.get("SEED", "1")
EXAMPLES = os.environ.get("EXAMPLES", "5")
MODELS = ["reader", "writer", "none"]

# A value may be valid for the document but not for the model, such as a text without a mask on /fill-mask. Routes that
# serve every text must answer valid requests with success, or with 404 for a model that does not exist.
CONFIGURATION = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404", "422"]

[[operations]]
include-path-regex = "^/(tokenize|decode|embed|similarity|embeddings|v1/embeddings|api/.*|models.*|v1/models.*)$"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "404"]
"""

# For each key, the values that the served models accept.
NARROWER = {
    "model": {"anyOf": [{"type": "null"}, {"enum": MODELS}, {"type": "string"}]},
    "prompt_name": {"type": "null"},
    "embeddings": {"type": "null"},
}


def narrowed(document):
    """The document with the limits of the served models: their names and ids, no pictures, no floats, and short
    generations."""

    def walk(value):
        if isinstance(value, list):
            for each in value:
                walk(each)
        if not isinstance(value, dict):
            return
        if {"required", "properties"} <= set(value.get("anyOf", [{}])[0]):
            del value["anyOf"][1:]  # keeps only the alternative with `inputs`
        for name, schema in value.get("properties", {}).items():
            if name in NARROWER:
                value["properties"][name] = NARROWER[name]
        for each in value.values():
            walk(each)

    components = document["components"]
    walk({name: schema for name, schema in components["schemas"].items() if name.endswith("Body")})
    components["schemas"]["Id"]["maximum"] = 258  # both models have 259 ids
    for path in document["paths"].values():
        for media_type in ("image/jpeg", "image/png"):
            path.get("post", {}).get("requestBody", {"content": {}})["content"].pop(media_type, None)
    for name in ("model", "deployment"):
        components["parameters"][name]["schema"] = {"enum": MODELS}
    components["parameters"]["version"]["schema"] = {"enum": ["1", "2"]}
    return document


def fetch(address):
    with urllib.request.urlopen(f"http://{address}/openapi.json") as answer:
        assert answer.headers["Content-Type"] == "application/json"
        return json.load(answer)


def explore(address, folder):
    document, configuration = os.path.join(folder, "openapi.json"), os.path.join(folder, "schemathesis.toml")
    with open(document, "w") as file:
        json.dump(narrowed(fetch(address)), file)
    with open(configuration, "w") as file:
        file.write(CONFIGURATION)
    command = [os.path.join(os.path.dirname(sys.executable), "schemathesis"), "--config-file", configuration, "run"]
    command += [document, "--url", f"http://{address}", "--checks", "all", "--phases", "examples,coverage,fuzzing"]
    command += ["--seed", SEED, "--max-examples", EXAMPLES, "--continue-on-failure", "--warnings", "off"]
    command += ["--suppress-health-check", "all", "--generation-database", "none"]
    print(f"# schemathesis: seed {SEED}, {EXAMPLES} examples")
    hooks = {"SCHEMATHESIS_HOOKS": "openapi_hooks", "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}
    result = subprocess.run(
        command, cwd=folder, env=os.environ | hooks, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert result.returncode == 0, result.stdout
    (count,) = re.findall(r"\d+ generated, \d+ passed", result.stdout)
    print(f"# schemathesis: {count}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        writer = os.path.join(folder, "writer")
        support.generating_model(writer)
        with support.Daemon("--model", "reader=tests/models/bytes", "--model", f"writer={writer}") as daemon:
            tests = [
                ("openapi-spec-validator accepts /openapi.json", lambda: validate(fetch(daemon.address))),
                ("schemathesis finds no answer that differs from /openapi.json", lambda: explore(daemon.address, folder)),
            ]
            return support.run(tests)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
