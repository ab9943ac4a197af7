"""The daemon under test, for scripts in Python. Needs no package."""

import json
import os
import re
import subprocess
import urllib.request


# A model whose tokens are the bytes of a text, and the built-in model that writes texts. They replace the built-in
# models, and have the same names.
STAND_INS = ("--model", "builtin=tests/models/bytes", "--model", "builtin-writer=weights/writer")


class Daemon:
    """Runs build/linformerd on a free port, until the end of a with block. `address` is the daemon's host and port.
    Without a model in the arguments, the daemon serves STAND_INS."""

    def __init__(self, *arguments):
        if "--model" not in arguments:
            arguments = (*STAND_INS, *arguments)
        self.arguments = [os.environ.get("LINFORMERD", "build/linformerd"), "--port", "0", *arguments]

    def __enter__(self):
        self.process = subprocess.Popen(self.arguments, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"listening on http://(\S+)", line)
            if found:
                self.address = found.group(1)
                self.url = "http://" + self.address
                return self
        raise RuntimeError(f"the daemon did not start: exit status {self.process.wait()}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.stderr.read()
        status = self.process.wait()
        assert status == 0, f"the daemon ended with {status}"

    def post(self, path, body):
        """Sends a JSON body, and returns the parsed JSON of the answer."""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def get(self, path):
        with urllib.request.urlopen(self.url + path) as answer:
            return answer.read()
