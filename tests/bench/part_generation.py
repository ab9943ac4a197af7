"""Measures generated tokens per second. Compares the daemon's /generate with the library's
AutoregressiveWrapper.generate, and with a client that requests one token after another from /logits. The time of a step
is measured on the engine alone. The daemon's rate is computed from its counters, in the time between the last prompt
and the end of the first sequence."""
import concurrent.futures
import http.client
import json
import random
import re
import statistics
import subprocess
import time
import urllib.request

import environment
import report
import workers
from servers import Server

COUNTS = [1, 8, 64]
POSITION = 4096
PROMPT = POSITION - 64
NEAR, FAR = 1000, 100_000
RATE_S = 5         # duration of each measurement of the daemon's rate
SLICE_S = 1.5      # duration of each slice of the engine
# Bytes of the embedding table of the model `generation`. A step reads one row of this table for each sequence.
EMBEDDING_BYTES = 20000 * 512 * 4
VOCABULARY = {"generation": 20000, "generation_long": 256}
LIBRARY = """
import json, sys, time, torch
from linear_attention_transformer import LinearAttentionTransformerLM
from linear_attention_transformer.autoregressive_wrapper import AutoregressiveWrapper
from safetensors.torch import load_file
folder, position, tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
kwargs = json.load(open(folder + "/config.json"))["kwargs"]
model = LinearAttentionTransformerLM(**kwargs)
model.load_state_dict(load_file(folder + "/model.safetensors"), strict=False)
wrapper = AutoregressiveWrapper(model)
prompt = torch.randint(kwargs["num_tokens"], (1, position))
wrapper.generate(prompt[:, :64], 1)
began = time.perf_counter()
wrapper.generate(prompt, tokens)
print(tokens / (time.perf_counter() - began))
"""


def prompt(rng, model, length):
    return [rng.randrange(VOCABULARY[model]) for _ in range(length)]


# ---- The daemon


class Daemon(Server):
    def __init__(self, model, dtype="f32"):
        folder = environment.model(model)
        super().__init__(f"{model}_{dtype}", lambda port: [
            environment.LINFORMERD, "--port", str(port), "--model", folder, "--dtype", dtype,
            "--request-timeout-ms", "600000", "--max-queue-tokens", "1000000"])

    def answers(self):  # GET /health instead of POST /embed
        try:
            return self.get("/health") is not None
        except OSError:
            return False

    def get(self, path):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            return answer.read().decode()

    def post(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {text[:200]}")
        return json.loads(text)

    def generate(self, ids, tokens):
        answer = self.post("/generate", {"inputs": ids, "parameters": {"max_new_tokens": tokens}})
        return len(answer["details"]["tokens"])

    def batches(self):
        """Time of reading, number of batches, and number of tokens since the start."""
        text, now = self.get("/metrics"), time.perf_counter()
        found = [float(re.search(rf"^linformerd_batch_{what}{{.*}} (\S+)$", text, re.M)[1])
                 for what in ("tokens_count", "tokens_sum")]
        return now, *found

    def rate(self, model, count, length):
        """(tokens per second, ms of a step) for `count` sequences after prompts of `length` ids."""
        rng, open_connections = random.Random(count), []
        for _ in range(count):
            connection = http.client.HTTPConnection("127.0.0.1", self.port)
            connection.request("POST", "/generate", json.dumps(
                {"inputs": prompt(rng, model, length), "parameters": {"max_new_tokens": 4000}}),
                {"Content-Type": "application/json"})
            open_connections.append(connection)
        before = self.batches()
        while True:  # waits until batches contain only one new token of each sequence, and no prompt
            time.sleep(0.3)
            now = self.batches()
            if now[1] > before[1] + 5 and now[2] - before[2] == count * (now[1] - before[1]):
                break
            before = now
        began = self.batches()
        time.sleep(RATE_S)
        ended = self.batches()
        for connection in open_connections:
            connection.close()
        while self.batches()[1] != (now := self.batches())[1]:
            time.sleep(0.2)
        seconds, steps, tokens = (b - a for a, b in zip(began, ended))
        if tokens != count * steps:
            raise RuntimeError(f"{tokens} tokens in {steps} batches, expected {count} in each")
        return tokens / seconds, 1e3 * seconds / steps


def logits_rate(daemon, count):
    """Tokens per second of `count` clients at once. Each client sends one request to /logits, like a step of a loop."""
    rng = random.Random(7)
    prompts = [prompt(rng, "generation", POSITION) for _ in range(count)]
    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda ids: daemon.post("/logits", {"inputs": ids, "positions": "last", "top_k": 1}), prompts))
    return count / (time.perf_counter() - began)


def library_rate():
    """Tokens per second of the library, with one sequence at a time. The running sums of several sequences exceed the
    memory of this machine."""
    folder = environment.model("generation")
    found = subprocess.run([environment.PYTHON, "-c", LIBRARY, folder, str(POSITION), "3"], check=True, text=True,
                           stdout=subprocess.PIPE, env=workers.clean_environment(workers.TORCH_ENVIRONMENT))
    return float(found.stdout)


def first_token(daemon, rounds):
    """Seconds for one token after POSITION ids, by /generate and by /logits."""
    rng, seconds = random.Random(9), {"generate": [], "logits": []}
    for _ in range(rounds):
        ids = prompt(rng, "generation", POSITION)
        for name, ask in (("generate", lambda: daemon.generate(ids, 1)),
                          ("logits", lambda: daemon.post("/logits", {"inputs": ids, "positions": "last", "top_k": 1}))):
            began = time.perf_counter()
            ask()
            seconds[name].append(time.perf_counter() - began)
    return seconds


# ---- The engine alone


class Engine:
    def __init__(self, model, dtype, most):
        self.group = workers.Workers()
        self.group.start("ours", [environment.program("worker"), environment.model(model), dtype, "8192", str(most)],
                         environment.log(f"{model}_{dtype}"), workers.OUR_ENVIRONMENT)
        self.group.wait_ready()
        if self.group.failures:
            raise RuntimeError(self.group.failures["ours"])

    def steps(self, count, first):
        """Median time of a step in ms, for `count` sequences with `first` earlier rows."""
        self.group.running["ours"].ask(f"steps {count} {first}")
        return statistics.median(self.group.measure(["ours"], 1, SLICE_S, 60)["ours"])

    def read(self):
        """Bytes of the weights, and the median time in ms in which all cores read as many bytes."""
        answer = self.group.running["ours"].ask(f"read {SLICE_S}").split()
        return int(answer[0]), statistics.median(float(ms) for ms in answer[1:])

    def __enter__(self):
        self.group.__enter__()
        return self

    def __exit__(self, *error):
        self.group.__exit__(*error)


def engine_table(dtype):
    rows = []
    with Engine("generation", dtype, max(COUNTS)) as engine:
        byte_count, all_ms = engine.read()
        read_ms = all_ms * (byte_count - EMBEDDING_BYTES) / byte_count
        for count in COUNTS:
            ms = engine.steps(count, POSITION)
            rows.append([dtype, count, report.number(ms), report.number(1e3 * count / ms),
                         report.times(ms / read_ms)])
        again = engine.read()[1]
    said = (f"{dtype}: {byte_count / 1e6:.1f} MB of memory, as many as the weights have, are read in "
            f"{report.number(all_ms)} ms before and {report.number(again)} ms after the steps "
            f"({byte_count / all_ms / 1e6:.1f} GB/s). A step reads {(byte_count - EMBEDDING_BYTES) / 1e6:.1f} MB of them, "
            "all but the table of embeddings.")
    return rows, said


def positions(rounds):
    """Medians over rounds: ms of a step near the beginning, ms of a step far from it, and the second divided by the
    first."""
    ratios, times = [], {NEAR: [], FAR: []}
    with Engine("generation_long", "f32", 1) as engine:
        for _ in range(rounds):
            for first in times:
                times[first].append(engine.steps(1, first))
            ratios.append(times[FAR][-1] / times[NEAR][-1])
    return statistics.median(times[NEAR]), statistics.median(times[FAR]), statistics.median(ratios)


def run(options):
    rounds = min(options.rounds, 3)
    began = report.heading(options.command)
    rates, said = {}, []
    with Daemon("generation") as daemon:
        for count in COUNTS:
            rates[count] = daemon.rate("generation", count, PROMPT)
            print(count, *map(report.number, rates[count]), flush=True)
        loop = {count: logits_rate(daemon, count) for count in COUNTS[:2]}
        seconds = first_token(daemon, rounds)
    library = library_rate()
    rows = [[count, report.number(rate), report.number(ms), report.number(library), report.times(rate / library),
             report.number(loop.get(count, loop[COUNTS[1]])),
             report.times(rate / loop.get(count, loop[COUNTS[1]]))] for count, (rate, ms) in rates.items()]
    served = report.table(["sequences", "tokens/s", "ms a step", "library", "tokens/s : library", "/logits loop",
                           "tokens/s : loop"], rows)
    steps = []
    for dtype in ("f32", "bf16"):
        more, line = engine_table(dtype)
        steps += more
        said.append(line)
    alone = report.table(["dtype", "sequences", "ms a step", "tokens/s", "step : reading the weights"], steps)
    near, far, ratio = positions(rounds)
    generate, logits = (statistics.median(seconds[name]) for name in ("generate", "logits"))
    report.write("generation", "\n".join([
        began, f"/generate behind prompts of {PROMPT} ids, in f32. The library runs one sequence at a time. Clients of "
               f"the /logits loop: as many as sequences, but at most {COUNTS[1]}:\n", served,
        f"The first token of {report.integer(POSITION)} ids takes {report.number(1e3 * generate)} ms, and /logits of "
        f"the same ids {report.number(1e3 * logits)} ms: {report.times(generate / logits)}, "
        f"{report.integer(round(POSITION / generate))} and {report.integer(round(POSITION / logits))} tokens/s.\n",
        "The engine alone, one step:\n", alone, *(f"- {line}" for line in said),
        f"- A model of max_seq_len 131 072 and depth 2: a step takes {report.number(near)} ms at position "
        f"{report.integer(NEAR)} and {report.number(far)} ms at {report.integer(FAR)}: {report.times(ratio)}."]))
