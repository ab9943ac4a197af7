"""Converts the results of bench.py to the tables of bench.md."""
import statistics

import goals
import report
from goals import MODELS, OURS, PAPER, find
from workers import median_ms, ratio


def rates_table(results, sizes):
    return report.table(["", "TFLOP/s"],
                        [[row["dtype"], report.number(row["tflops"])] for row in find(results, "rates")])


def compare_row(results, sizes, row, worker):
    kind, dtype = worker.split()
    ms, rows = median_ms(row["times"], worker), sizes["seq_len"] * row["batch"]
    part = goals.part_of_rate(results, row["model"], row["batch"], dtype) if kind == OURS else float("nan")
    return [MODELS[row["model"]], row["batch"], worker, report.number(ms), report.integer(round(rows / ms * 1e3)),
            "" if kind == OURS else report.times(ratio(row["times"], worker, f"{OURS} {dtype}")),
            "–" if part != part else f"{part:.2f}", f"{row['errors'][worker]:.1e}"]


def compare_table(results, sizes):
    """Compiled peers were measured later than the others, in turns with the engine. The column "times ours" divides a
    peer's time by the engine's time in the same turns."""
    rows = []
    for row in sorted(find(results, "compare"), key=lambda row: (list(MODELS).index(row["model"]), row["batch"])):
        rows += [compare_row(results, sizes, row, worker) for worker in row["times"]
                 if not (worker.startswith(OURS) and row["compiled"])]
    return report.table(["model", "batch", "", "ms", "tokens/s", "times ours", "of the chip's rate", "error"], rows)


def short_table(results, sizes):
    rows = []
    for row in find(results, "short"):
        us, kernels = 1e3 * statistics.median(row["ms"]), row["kernels_us"]
        rows.append([MODELS[row["model"]], row["dtype"], report.number(us), row["kernels"] or "–",
                     report.number(kernels) if kernels else "–", report.times(us / kernels) if kernels else "–"])
    return report.table(["model", "", "µs", "kernels", "µs of kernels", "ratio"], rows)


def mixed_table(results, sizes):
    rows = []
    for row in find(results, "mixed"):
        full, mixed = (statistics.median(row[kind]) for kind in ("full", "mixed"))
        rows.append([MODELS[row["model"]], row["tokens"], row["items"],
                     *(report.integer(round(row["tokens"] / ms * 1e3)) for ms in (full, mixed)),
                     f"{goals.mixed_to_full(results, row['model']):.2f}"])
    columns = ["model", "tokens", "sequences", "tokens/s at full length", "tokens/s mixed", "mixed : full"]
    return report.table(columns, rows)


def saved(standard, ms):
    """Returns the speedup `standard / ms` as text, or a dash if one of the times was not measured."""
    return f"{standard / ms:.1f}" if standard and ms else "–"


def table3_cell(found, n, k, paper):
    """Returns the speedup over the engine's full attention, the speedup over PyTorch's flash attention, and the paper's
    figure."""
    ms = found.get((n, k, OURS))
    return f"{saved(found.get((n, None, OURS)), ms)} / {saved(found.get((n, None, 'fused')), ms)} / {paper}"


def table3_table(results, sizes):
    found = {(row["n"], row["k"], row["worker"]): row["ms"] for row in find(results, "table3")}
    rows = []
    for n in sizes["lengths"]:
        standard = [found.get((n, None, worker)) for worker in (OURS, "fused")]
        cells = [table3_cell(found, n, k, (*PAPER.get(n, ()), *"–––––")[i]) if k <= n // 2 else ""
                 for i, k in enumerate(sizes["ks"])]
        rows.append([n, *(report.number(ms) if ms else "–" for ms in standard), *cells])
    return report.table(["n", "own full attention, ms", "PyTorch flash, ms", *(f"k {k}" for k in sizes["ks"])], rows)


def goals_table(results):
    rows = [[what, found, wanted, f"**{verdict}**" if verdict == "NOT MET" else verdict]
            for what, found, wanted, verdict in goals.judged(results)]
    return report.table(["goal", "found", "wanted", ""], rows)


SECTIONS = {
    "rates": ("Products of large matrices on this device, by PyTorch:", rates_table),
    "compare": ("Times from the ids in the host's memory to the mean last hidden states in the host's memory:",
                compare_table),
    "short": ("One sequence of {short} ids: the time of a run, and the sum of the times of its kernels by ncu. Both use "
              "cuBLASLt's first algorithms (LINFORMERD_CUDA_TUNING_MS=0):", short_table),
    "mixed": ("Sequences of {shortest} to {seq_len} ids (log-uniform) in one batch, in bf16:", mixed_table),
    "table3": ("Speedups of the Linformer in bf16, with {table_tokens} tokens a batch, {table}, and E shared layerwise. "
               "Each cell has three speedups: over the engine's full attention, over PyTorch's flash attention, and the "
               "paper's figure (arXiv 2006.04768, Table 3, on a V100):", table3_table)}


def heading(results, command):
    text = f"Measured {results['began']}, {results['commit']}, `{command}`; " + "; ".join(results["versions"]) + ".\n"
    if results["dry"]:
        text += "\n**A dry run: the shim on a CPU, tiny sizes. No figure here says anything about a device.**\n"
    return text


def markdown(results, sizes, command):
    """Returns the content of bench.md."""
    shown = sizes | {"table": ", ".join(f"{key} {value}" for key, value in sizes["table"].items())}
    text = [heading(results, command)]
    text += [f"{title.format(**shown)}\n\n{table(results, sizes)}" for part, (title, table) in SECTIONS.items()
             if find(results, part)]
    if not results["dry"]:
        text.append("Goals:\n\n" + goals_table(results))
    text += [f"- {line}" for line in results["failures"] + results["not_measured"]]
    return "\n".join(text) + "\n"
