"""Compares linformerd with FastAPI and PyTorch. Both serve the same model, and receive the same requests in turns."""
import statistics

import environment
import report
import workers
from servers import Loads, Server

OURS, PADS, EQUAL = "linformerd", "FastAPI, padding", "FastAPI, equal lengths"
VOCABULARY = 20000
CONNECTIONS = (1, 8, 64)
LENGTHS = {"128": (128, 128), "16 … 4096": (16, 4096)}
ROUNDS = 2
ANSWERS_EACH = 3  # minimum number of answers of each connection in a slice
STARTS = {OURS: 7, PADS: 3}


def commands(folder):
    script = environment.FOLDER / "fastapi_server.py"
    return {OURS: lambda port: [environment.LINFORMERD, "--port", str(port), "--model", f"server={folder}"],
            PADS: lambda port: [environment.PYTHON, script, folder, str(port), "pad"],
            EQUAL: lambda port: [environment.PYTHON, script, folder, str(port), "equal"]}


def environment_of(name):
    return () if name == OURS else workers.TORCH_ENVIRONMENT


def start_times_ms(folder):
    """Median times of starts. Each start is a separate process. The first start is not counted, because it reads the
    files into memory."""
    times = {}
    for name, count in STARTS.items():
        found = []
        for _ in range(count + 1):
            with Server(name, commands(folder)[name], environment_of(name)) as server:
                found.append(server.started_ms)
        times[name] = statistics.median(found[1:])
    return times


def measure(servers, lengths, connections, seconds):
    """Returns {name: Loads}. Only one server runs at a time, and the others are stopped (SIGSTOP). The server that
    batches equal lengths is measured only if lengths differ, because otherwise the padding server never pads."""
    names = [name for name in servers if name != EQUAL or lengths[0] != lengths[1]]
    loads = {name: Loads() for name in names}
    for turn in range(ROUNDS):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            servers[name].resume()
            loads[name].add(servers[name], connections, seconds, lengths, VOCABULARY, ANSWERS_EACH)
            servers[name].stop()
    return loads


def rows_of(label, connections, loads):
    for name, load in loads.items():
        ours = loads[OURS]
        yield [label, connections, name, report.number(load.median("tokens_a_s")),
               report.number(load.median("requests_a_s")), report.number(load.latency_ms(50)),
               report.number(load.latency_ms(99)), load.errors(),
               "" if name == OURS else f"**{report.times(ours.ratio(load, 'tokens_a_s'))}**",
               "" if name == OURS else report.times(load.latency_ms(99) / ours.latency_ms(99))]


def run(options):
    began = report.heading(options.command)
    folder = environment.model("server")
    started = start_times_ms(folder)
    rows, servers = [], {}
    try:
        for name, command in commands(folder).items():
            servers[name] = Server(name, command, environment_of(name))
            servers[name].stop()
        for name in servers:
            measure({name: servers[name]}, LENGTHS["16 … 4096"], 1, 1)  # warms the server up
        for label, lengths in LENGTHS.items():
            for connections in CONNECTIONS:
                for row in rows_of(label, connections, measure(servers, lengths, connections, options.seconds)):
                    rows.append(row)
                    print(*row, sep="  ", flush=True)
        memory = {name: server.status_mib("VmHWM") for name, server in servers.items()}
    finally:
        for server in servers.values():
            server.close()
    text = [began,
            report.table(["lengths", "connections", "server", "tokens/s", "requests/s", "p50 ms", "p99 ms", "errors",
                          "our tokens/s : its", "its p99 : ours"], rows),
            report.table(["", "start to first answer, ms", "peak memory after all of this, MiB"],
                         [[name, report.number(started.get(name, float("nan"))), report.number(memory[name])]
                          for name in servers])]
    report.write("server", "\n".join(text))
