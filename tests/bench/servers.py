"""Starts servers under load as child processes on ports of this machine. client.c sends the requests."""
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.request

import environment
import workers

START_LIMIT_S = 120


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A running server. `command` is a function of the port. `started_ms` is the time from the start to the first
    answer to POST /embed."""

    def __init__(self, name, command, more_environment=()):
        self.name, self.port = name, free_port()
        self.log = open(environment.log(f"server_{name}"), "w")
        began = time.perf_counter()
        self.process = subprocess.Popen(command(self.port), stdout=self.log, stderr=self.log,
                                        env=workers.clean_environment(more_environment),
                                        preexec_fn=workers.die_with_parent)
        while not self.answers():
            if self.process.poll() is not None or time.perf_counter() - began > START_LIMIT_S:
                self.close()
                raise RuntimeError(f"{name} does not start; see {self.log.name}")
            time.sleep(0.001)
        self.started_ms = 1e3 * (time.perf_counter() - began)

    def answers(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/embed", b'{"inputs": [[1, 2, 3]]}',
                                         {"Content-Type": "application/json"})
        try:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(request, timeout=START_LIMIT_S) as answer:
                return len(json.load(answer)) == 1
        except urllib.error.HTTPError as error:
            if error.code != 503:  # status 503: the server is not ready yet
                raise
            return False
        except OSError:
            return False

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def status_mib(self, field):
        """A field of /proc/PID/status in MiB, such as VmHWM or VmRSS."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
        return float("nan")

    def close(self):
        if self.process.poll() is None:
            self.resume()
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Load:
    """The answers of one run of the client. Rates are computed over the time to the last answer. This time includes
    requests that were open when the client's time was over. So no slow answer is lost."""

    def __init__(self, server, connections, seconds, lengths, vocabulary, answers_each=0):
        command = [environment.program("client"), str(server.port), "/embed", str(connections), str(seconds),
                   *map(str, lengths), str(vocabulary), str(answers_each)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
        answers = [tuple(map(int, line.split())) for line in lines if line and not line.startswith("errors")]
        self.errors = int(lines[-2].split()[1])
        self.latencies_ms = [latency / 1e3 for _, latency, _ in answers]
        last_s = max((finished for finished, _, _ in answers), default=0) / 1e6
        self.tokens_a_s = sum(tokens for _, _, tokens in answers) / last_s if answers else 0
        self.requests_a_s = len(answers) / last_s if answers else 0


class Loads:
    """The runs of one server, one for each round."""

    def __init__(self):
        self.runs = []

    def add(self, *arguments):
        self.runs.append(Load(*arguments))

    def latency_ms(self, percent):
        """The percentile over the answers of all rounds (nearest rank)."""
        values = sorted(value for run in self.runs for value in run.latencies_ms)
        return values[max(0, -(-len(values) * percent // 100) - 1)] if values else float("nan")

    def median(self, name):
        return statistics.median(getattr(run, name) for run in self.runs) if self.runs else float("nan")

    def errors(self):
        return sum(run.errors for run in self.runs)

    def ratio(self, other, name):
        """The ratio of a figure of this server to that of the other server. It is the median of the rounds' ratios."""
        return statistics.median(getattr(a, name) / max(getattr(b, name), 1e-9)
                                 for a, b in zip(self.runs, other.runs))
