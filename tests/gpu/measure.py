"""The parts that bench.py measures. Each figure is written to bench.json as soon as it is measured."""
import math
import random
import re
import statistics
import subprocess
import time

import kernels
import report
import workers
from goals import COMPILED, OURS, PAPER
from workers import median_ms

DTYPES = ("f32", "tf32", "bf16", "f16")
PEERS = {"f32": ["eager"], "tf32": ["eager"], "bf16": ["eager", *COMPILED], "f16": ["eager"]}
MAX_ERROR = {"f32": 1e-4, "tf32": 1e-2, "bf16": 5e-2, "f16": 1e-2}  # largest relative L2 error of an output
PRODUCTS = {"linear", "feed_forward", "project_sequence", "attend"}  # operations that consist of matrix products
UNTUNED = {"LINFORMERD_CUDA_TUNING_MS": "0"}  # every process uses the same algorithms, the first ones of cuBLASLt
COMPILE_S = 60  # seconds that must be left for torch.compile, until a compilation was measured


class OutOfTime(Exception):
    pass


def pooled(path, lengths):
    """Returns the command that lets a worker prepare sequences of these lengths, with the ids in `path`."""
    return f"pooled {path} {' '.join(map(str, lengths))}"


def prepare(bench, group, names, line, what):
    """Sends the command to the named workers. Returns the names of the workers that did not fail."""
    return [name for name in names if bench.ask(group, name, line, what) is not None]


# ---- rates

def measure_rates(bench):
    bench.check_time("rates")
    folder = bench.language_model("shared")
    with workers.Workers() as group:
        for dtype in bench.options.dtypes:
            bench.start_peer(group, "eager", folder, dtype)
        bench.ready(group, "rates")
        for name in list(group.running):
            answer = bench.ask(group, name, f"rate {bench.sizes['rate']}", "rates")
            if answer:
                bench.add("rates", dtype=name.split()[1], tflops=float(answer))


# ---- compare

def product_flops(text):
    """Returns the FLOPs of the plan's products, for one sequence. `text` is the plan, as linformerd --explain prints
    it."""
    steps = re.findall(r"^ *\d+ (\S+) +(\d+) ", text, re.MULTILINE)
    return sum(int(flops) for operation, flops in steps if operation in PRODUCTS)


def add_flops(bench, group, model):
    """Adds the FLOPs of the model's plan to the results. Any worker of the engine can print the plan, because all of
    them have the same plan."""
    name = next((name for name in group.running if name.startswith(OURS)), None)
    path, length = bench.work / "explained", bench.sizes["seq_len"]
    if name and bench.ask(group, name, f"explain {length} {path}", "FLOPs") is not None:
        bench.add("flops", model=model, length=length, flops=product_flops(path.read_text()))


def error_of(bench, group, name, what):
    """Returns the relative L2 difference between a worker's output and the output of PyTorch in f32. If the difference
    is too large, notes a failure and returns NaN."""
    path, reference = bench.work / "output.raw", "eager f32"
    if bench.ask(group, name, f"save {path}", what) is None:
        return math.nan
    error = float(bench.ask(group, reference, f"compare {path}", what) or math.nan)
    if error <= MAX_ERROR[name.split()[1]]:
        return error
    bench.failures.append(f"{what}: {name}: its output differs by {error:.1e}")
    return math.nan


def take_turns(bench, group, names, what, **found):
    """Measures the named workers in turns, and adds their times and errors to the results. Omits workers whose output
    differs from the output of PyTorch in f32 by more than MAX_ERROR."""
    errors = {name: error_of(bench, group, name, what) for name in names}
    good = [name for name in names if errors[name] == errors[name]]
    if not good:
        return
    times = group.measure(good, bench.sizes["rounds"], bench.sizes["slice_s"], budget_s=30)
    for name in good:
        print(f"    {name:20} {report.number(median_ms(times, name)):>8} ms", flush=True)
    bench.add("compare", times=times, errors={name: errors[name] for name in good}, **found)


def is_compiled(name):
    return name.split()[0] in COMPILED


def compile_peer(bench, group, name, line, what):
    """Lets a peer compile its model. Returns False if the peer fails. Raises OutOfTime if the time may not suffice.
    Peers compile one after another, because a compilation measures kernels on the device."""
    bench.check_time(f"{what}, {name}", bench.compile_s)
    began = time.monotonic()
    done = bench.ask(group, name, line, what) is not None
    bench.compile_s = max(bench.compile_s, time.monotonic() - began)
    return done


def compare_batch(bench, group, model, batch, with_compiled):
    what, length = f"compare {model}, batch {batch}{', compiled' * with_compiled}", bench.sizes["seq_len"]
    bench.check_time(what)
    if "eager f32" not in group.running:
        bench.not_measured.append(f"{what}: no PyTorch in f32 to compare with")
        return
    print(what, flush=True)
    line = pooled(bench.ids(batch * length), [length] * batch)
    quick = [name for name in group.running
             if not is_compiled(name) and (not with_compiled or name in (f"{OURS} bf16", "eager f32"))]
    names = prepare(bench, group, quick, line, what)
    if with_compiled:
        compiled = [name for name in group.running if is_compiled(name)]
        names = [name for name in names if name != "eager f32"] + \
                [name for name in compiled if compile_peer(bench, group, name, line, what)]
    take_turns(bench, group, names, what, model=model, batch=batch, compiled=with_compiled)


def start_compared(bench, group, folder, what):
    """Starts the engine in each dtype, then the peers. The workers of the engine start one after another. Each worker
    measures its products while it loads the model, and another worker on the device would disturb the measurement."""
    length, most = bench.sizes["seq_len"], max(bench.batches)
    for dtype in bench.options.dtypes:
        bench.start_ours(group, folder, dtype, most * length, most)
        bench.ready(group, what)
    for dtype in bench.options.dtypes:
        for kind in PEERS[dtype]:
            if kind in bench.options.peers:
                bench.start_peer(group, kind, folder, dtype)
    if "eager f32" not in group.running:
        bench.start_peer(group, "eager", folder, "f32")  # the reference for errors
    bench.ready(group, what)


def compare_model(bench, model):
    """Measures first without the compiled peers, then with them. Compiled peers come last, because they compile for
    minutes, and the time may end meanwhile."""
    with workers.Workers() as group:
        start_compared(bench, group, bench.language_model(model), f"compare {model}")
        add_flops(bench, group, model)
        for with_compiled in (False, True):
            if with_compiled and not any(map(is_compiled, group.running)):
                continue
            for batch in bench.batches:
                bench.in_time(compare_batch, group, model, batch, with_compiled)


def measure_compare(bench):
    for model in bench.options.models:
        bench.check_time(f"compare {model}")
        compare_model(bench, model)


# ---- short

def kernels_of(bench, what, command, line):
    """Returns (number of kernels of a run, sum of their microseconds). If the kernels cannot be measured, notes the
    reason and returns (None, None)."""
    if not bench.options.ncu:
        bench.not_measured.append(f"{what}: the kernels' own times: there is no ncu")
        return None, None
    try:
        return kernels.profile(bench.options.ncu, command, line, bench.work / "ncu.csv", UNTUNED | {"SHIM_SEED": "0"},
                               max(bench.left_s(), 1))
    except (kernels.NotMeasurable, subprocess.TimeoutExpired) as error:
        bench.not_measured.append(f"{what}: {error}")
    except (RuntimeError, ValueError, OSError) as error:
        bench.failures.append(f"{what}: {error}")
    return None, None


def short_one(bench, model, dtype):
    length, what = bench.sizes["short"], f"short {model} {dtype}"
    bench.check_time(what)
    folder, line, name = bench.language_model(model), pooled(bench.ids(length), [length]), f"{OURS} {dtype}"
    with workers.Workers() as group:
        bench.start_ours(group, folder, dtype, length, 1, UNTUNED)
        bench.ready(group, what)
        if not prepare(bench, group, list(group.running), line, what):
            return
        times = group.measure([name], bench.sizes["rounds"], bench.sizes["slice_s"], 10)
    count, microseconds = kernels_of(bench, what, bench.ours(folder, dtype, length, 1), line)
    bench.add("short", model=model, dtype=dtype, length=length, ms=times[name], kernels=count, kernels_us=microseconds)


def measure_short(bench):
    for model in bench.options.models:
        for dtype in ("bf16", "f32"):
            if dtype in bench.options.dtypes:
                bench.in_time(short_one, model, dtype)


# ---- mixed

def mixed_lengths(sizes, total, seed=2006):
    """Returns random lengths with the sum `total`. They are log-uniform from sizes["shortest"] to sizes["seq_len"]. The
    last length is reduced to reach the sum."""
    generator, lengths = random.Random(seed), []
    while sum(lengths) < total:
        length = round(math.exp(generator.uniform(math.log(sizes["shortest"]), math.log(sizes["seq_len"]))))
        lengths.append(min(length, total - sum(lengths)))
    return lengths


def median_run(bench, group, name, line, what):
    """Returns the median time of a run of the batch that the command `line` describes, in milliseconds. If the worker
    fails, notes the reason and returns None."""
    if bench.ask(group, name, line, what) is None:
        return None
    answer = bench.ask(group, name, f"run {bench.sizes['slice_s']}", what)
    return answer and statistics.median(map(float, answer.split()))


def mixed_one(bench, model):
    length, what, name = bench.sizes["seq_len"], f"mixed {model}", f"{OURS} bf16"
    bench.check_time(what)
    total = max(bench.batches) * length
    lengths, path = mixed_lengths(bench.sizes, total), bench.ids(total)
    shapes = {"full": [length] * (total // length), "mixed": lengths}
    found = {kind: [] for kind in shapes}
    with workers.Workers() as group:
        bench.start_ours(group, bench.language_model(model), "bf16", total, len(lengths))
        bench.ready(group, what)
        for _ in range(bench.sizes["rounds"] if group.running else 0):
            for kind, shape in shapes.items():
                found[kind].append(median_run(bench, group, name, pooled(path, shape), what))
                if found[kind][-1] is None:
                    return
    if found["mixed"]:
        bench.add("mixed", model=model, tokens=total, items=len(lengths), **found)


def measure_mixed(bench):
    for model in bench.options.models:
        bench.in_time(mixed_one, model)


# ---- table3

def time_one(bench, what, folder, kind, prepared, tokens, items, then=None):
    """Starts one worker in bf16. Returns (milliseconds of a run, the worker's answer to the command `then`). If the run
    or the command fails, the failure is noted, and the value is None. Without `then`, the answer is None."""
    bench.check_time(what)
    name = f"{kind} bf16"
    with workers.Workers() as group:
        if kind == OURS:
            bench.start_ours(group, folder, "bf16", tokens, items)
        else:
            bench.start_peer(group, kind, folder, "bf16")
        bench.ready(group, what)
        ms = median_run(bench, group, name, prepared, what) if name in group.running else None
        return ms, bench.ask(group, name, then, what) if ms and then else None


def standard_attention(bench, n, folder, prepared, tokens):
    """Measures standard attention in the engine and in PyTorch. Notes a failure if their outputs differ by more than
    MAX_ERROR."""
    what, output = f"table3 n {n}, standard", bench.work / "output.raw"
    ours, _ = time_one(bench, what, folder, OURS, prepared, tokens, tokens // n, f"save {output}")
    bench.add("table3", n=n, k=None, worker=OURS, ms=ours)
    flash, error = time_one(bench, what, folder, "fused", prepared, tokens, tokens // n, ours and f"compare {output}")
    bench.add("table3", n=n, k=None, worker="fused", ms=flash, error=error)
    if ours and flash and not float(error or "nan") <= MAX_ERROR["bf16"]:
        bench.failures.append(f"{what}: the outputs differ by {error}")


def table3_row(bench, n):
    sizes, tokens = bench.sizes, bench.sizes["table_tokens"]
    prepared = pooled(bench.ids(tokens), [n] * (tokens // n))
    kwargs = dict(sizes["table"], num_tokens=sizes["vocabulary"], input_size=n)
    folder = bench.model("table3", "linformer_pytorch.LinformerLM",
                         kwargs | {"dim_k": sizes["ks"][0], "full_attention": True})
    standard_attention(bench, n, folder, prepared, tokens)
    for k in (k for k in sizes["ks"] if k <= n // 2):
        folder = bench.model("table3", "linformer_pytorch.LinformerLM", kwargs | {"dim_k": k})
        ms, _ = time_one(bench, f"table3 n {n}, k {k}", folder, OURS, prepared, tokens, tokens // n)
        bench.add("table3", n=n, k=k, worker=OURS, ms=ms)


def measure_table3(bench):
    for n in bench.sizes["lengths"]:
        bench.in_time(table3_row, n)


CHIP = dict(dim=512, seq_len=4096, depth=12, heads=8, k=256, vocabulary=256, batches=(1, 8, 32), short=128, shortest=16,
            rate=8192, table_tokens=65536, table=dict(channels=512, nhead=8, dim_ff=2048, depth=2),
            lengths=tuple(PAPER), ks=tuple(128 << i for i in range(5)), rounds=5, slice_s=0.4)
DRY = dict(dim=32, seq_len=64, depth=2, heads=4, k=8, vocabulary=64, batches=(1, 2), short=16, shortest=4,
           rate=128, table_tokens=128, table=dict(channels=32, nhead=4, dim_ff=64, depth=2),
           lengths=(32, 64), ks=(8, 16), rounds=2, slice_s=0.0)
PARTS = {"rates": measure_rates, "short": measure_short, "mixed": measure_mixed, "compare": measure_compare,
         "table3": measure_table3}
