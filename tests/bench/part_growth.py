"""Measures how the time of linformerd grows with the length, the batch, and the number of connections."""
import statistics

import environment
import report
import workers
from servers import Loads, Server

LENGTHS = [1 << power for power in range(10, 21)]
BATCHES = [1, 2, 4, 8, 16, 32, 64]
BATCH_LENGTH = 128
CONNECTIONS = [1, 10, 100, 1000, 10000]
REQUEST_LENGTH, BYTE_VOCABULARY = 32, 256  # length of a request in tokens, and number of ids, for the model in BYTES
BYTES = environment.ROOT / "tests" / "models" / "bytes"
SLICE_S, BUDGET_S, LOAD_S = 0.5, 60, 5


def measure_shapes(name, shapes, rounds):
    """Returns {(batch, n): [ms of each round]}. Each round measures all shapes, so that disturbances of the machine
    affect all of them."""
    folder = environment.model(name)
    times = {shape: [] for shape in shapes}
    with workers.Workers() as group:
        most = max(batch * length for batch, length in shapes)
        group.start("ours", [environment.program("worker"), folder, "f32", str(most), str(max(b for b, _ in shapes))],
                    environment.log(f"growth_{name}"), workers.OUR_ENVIRONMENT)
        group.wait_ready()
        if group.failures:
            raise RuntimeError(group.failures["ours"])
        for _ in range(rounds):
            for batch, length in shapes:
                group.running["ours"].ask(f"shape {batch} {length}")
                times[batch, length] += group.measure(["ours"], 1, SLICE_S, BUDGET_S)["ours"]
    return times


def length_table(rounds):
    times = measure_shapes("long", [(1, length) for length in LENGTHS], rounds)
    rows = []
    for (_, length), found in times.items():
        ms = statistics.median(found)
        ratio = statistics.median((a / length) / (b / 4096) for a, b in zip(found, times[1, 4096]))
        rows.append([report.integer(length), report.number(ms), report.number(1e6 * ms / length), report.times(ratio)])
    return report.table(["n", "ms", "ns a token", "a token's time : at 4096"], rows)


def batch_table(rounds):
    times = measure_shapes("shared", [(batch, BATCH_LENGTH) for batch in BATCHES], rounds)
    rows = []
    for (batch, length), found in times.items():
        ms = statistics.median(found)
        ratio = statistics.median(b * batch / a for a, b in zip(found, times[1, BATCH_LENGTH]))
        rows.append([batch, report.number(ms), report.number(1e3 * batch * length / ms), report.times(ratio)])
    return report.table(["batch", "ms", "tokens/s", "tokens/s : at 1"], rows)


def connection_table():
    rows = []
    with Server("builtin", lambda port: [environment.LINFORMERD, "--model", f"builtin={BYTES}", "--port", str(port)]) as server:
        for connections in CONNECTIONS:
            loads = Loads()
            loads.add(server, connections, LOAD_S, (REQUEST_LENGTH, REQUEST_LENGTH), BYTE_VOCABULARY)
            rows.append([report.integer(connections), report.number(loads.median("requests_a_s")),
                         report.number(loads.latency_ms(50)), report.number(loads.latency_ms(99)), loads.errors(),
                         report.number(server.status_mib("VmHWM"))])
            print(*rows[-1], sep="  ", flush=True)
    return report.table(["connections", "requests/s", "p50 ms", "p99 ms", "errors", "peak memory so far, MiB"], rows)


def run(options):
    began = report.heading(options.command)
    rounds = min(options.rounds, 3)
    text = [began, "One sequence of n rows. The model is linformer.Linformer with dim 128, heads 4, k 128, depth 2, "
                   "seq_len 1 048 576, one_kv_head, share_kv:\n", length_table(rounds),
            f"Sequences of {BATCH_LENGTH} rows, model (a):\n", batch_table(rounds),
            f"The model of bytes in tests/models/bytes. Each connection always has one request of {REQUEST_LENGTH} ids in progress:\n",
            connection_table()]
    report.write("growth", "\n".join(text))
