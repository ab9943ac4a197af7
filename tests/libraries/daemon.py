"""Runs linformerd for these tests: with --explain to test whether a folder loads, and as a server whose /v2 API
receives binary tensors."""

import http.client
import json
import re
import subprocess

import numpy as np

DATATYPES = {"int64": "INT64", "int32": "INT32", "float32": "FP32", "bool": "BOOL"}


class Refused(Exception):
    """The daemon refused a request. Contains the daemon's message and the HTTP status."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


def load_refusal(binary, folder):
    """Returns the daemon's message if it does not load the folder, otherwise None. Raises RuntimeError if the daemon
    crashes."""
    result = subprocess.run([binary, "--explain", folder], capture_output=True, text=True)
    if result.returncode == 0:
        return None
    if result.returncode != 1 or not result.stderr.strip():
        raise RuntimeError(f"--explain {folder} ended with {result.returncode}: {result.stderr}")
    message = result.stderr.strip().splitlines()[-1].removeprefix("linformerd: ").replace(f"{folder}/", "")
    return re.sub(r"^model \S+: ", "", message)


class Daemon:
    """A context manager: a daemon that serves a folder of models on a free port, until the end of the with block."""

    def __init__(self, binary, folder):
        self.command = [binary, "--model", folder, "--port", "0", "--log-level", "warning"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        log = ""
        for line in self.process.stderr:
            log += line
            if found := re.search(r"listening on http://(\S+):(\d+)", line):
                self.connection = http.client.HTTPConnection(found[1], int(found[2]))
                return self
        raise RuntimeError(f"the daemon did not start, exit status {self.process.wait()}:\n{log}")

    def __exit__(self, *_):
        self.connection.close()
        self.process.terminate()
        rest = self.process.stderr.read()
        if self.process.wait() != 0:
            raise RuntimeError(f"the daemon ended with {self.process.returncode}:\n{rest}")

    def outputs(self, model):
        """Returns the names of the model's outputs. The class's own output comes first."""
        self.connection.request("GET", f"/v2/models/{model}")
        return [output["name"] for output in json.loads(self.connection.getresponse().read())["outputs"]]

    def infer(self, model, inputs, outputs):
        """Sends arrays by name, and returns the outputs as arrays by name. Raises Refused."""
        header = json.dumps({
            "inputs": [{"name": name, "shape": value.shape, "datatype": DATATYPES[value.dtype.name],
                        "parameters": {"binary_data_size": value.nbytes}} for name, value in inputs.items()],
            "outputs": [{"name": name, "parameters": {"binary_data": True}} for name in outputs],
        }).encode()
        body = header + b"".join(np.ascontiguousarray(value).tobytes() for value in inputs.values())
        self.connection.request("POST", f"/v2/models/{model}/infer", body, {
            "Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(header))})
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise Refused(json.loads(body)["error"], answer.status)
        size = int(answer.headers["Inference-Header-Content-Length"])
        found, place = {}, size
        for output in json.loads(body[:size])["outputs"]:
            length = output["parameters"]["binary_data_size"]
            found[output["name"]] = np.frombuffer(body[place:place + length], np.float32).reshape(output["shape"])
            place += length
        return found
