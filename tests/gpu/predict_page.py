"""The tables and sentences in docs/cuda.md with figures of predict.py."""
import goals
import page
import predict
from predict import CASES, CHIPS, PEERS, SIZES, WAYS


def ms(seconds):
    return f"{1e3 * seconds:.2f}"


def times(cases, dtype, head, columns):
    """Returns a table with a row for each case, in Markdown. `head` contains the titles of the columns after the
    engine's times. `columns` is a function from the prediction of a case to the cells of these columns."""
    rows = [(*case, *map(ms, (found[dtype], *(found[f"{dtype} {way}"] for way in WAYS))), *columns(found))
            for case, found in cases.items()]
    return page.table(["chip", "model", "batch", f"{dtype}, ms", "cuBLASLt, ms", "own kernels, ms", *head], rows)


def bf16_table(cases):
    head = ["part of the rate", *(f"{title}, ms" for title in PEERS.values()), "fastest of these : ours"]
    return times(cases, "bf16", head, lambda found: (f"{found['part']:.2f}", *map(ms, found["peers"]),
                                                     f"{min(found['peers']) / found['bf16']:.2f}"))


def f32_table(cases):
    head = ["eager, ms", "torch.compile, ms", "eager : ours", "torch.compile : ours"]
    return times(cases, "f32", head, lambda found: (
        *(ms(found[f"{peer} f32"]) for peer in ("eager", "compile")),
        *(f"{found[f'{peer} f32'] / found['f32']:.2f}" for peer in ("eager", "compile"))))


def slowest_own(kernels):
    """Returns a clause that names the slowest of the engine's own kernels, and its share of the time. `kernels` is
    {kernel: seconds}."""
    own = {name: seconds for name, seconds in kernels.items() if name.split("<")[0] in predict.WORK}
    name = max(own, key=own.get)
    return f"`{name.split('<')[0]}` takes {own[name] / sum(kernels.values()):.0%} of the time"


def verdict(counts, found, wanted, dtype, gelu_apart=False):
    """Returns a sentence on whether each number is at least `wanted`. `found` is {(chip, model, batch): number}."""
    missed = {key: number for key, number in found.items() if number < wanted}
    chip, model, batch = min(found, key=found.get)
    kernels = predict.engine_s(CHIPS[chip], counts, model, dtype, batch, gelu_apart=gelu_apart)[1]
    where = "everywhere" if len(missed) == len(found) else ", ".join(" ".join(map(str, key)) for key in missed)
    said = f"missed ({where})" if missed else "met"
    return f"{min(found.values()):.2f} to {max(found.values()):.2f}: {said}. " \
        f"The smallest is that of {chip}, {model}, batch {batch}, where {slowest_own(kernels)}"


def lengths_table(counts):
    """A table of batches whose items have several lengths, for each way to compute their projections."""
    rows = []
    for chip, model in ((chip, model) for chip in CHIPS for model in predict.MODELS):
        library, kernel = (predict.lengths_s(CHIPS[chip], counts, model, way) for way in WAYS)
        rows.append((chip, model, ms(library), ms(kernel), f"{kernel / library:.2f}"))
    return page.table(["chip", "model", "grouped products, ms", "own kernel, ms", "own kernel : grouped"], rows)


def goals_table(counts, cases):
    """A table of the goals in goals.py, and whether the predictions meet them."""
    floats = {key: found["eager f32"] / found["f32"] for key, found in cases.items()}
    rows = []
    for gelu_apart in (False, True):
        dtype = "bf16, GELU by the own kernel" if gelu_apart else "bf16"
        longer = {key: found["apart"] / found["bf16"] if gelu_apart else 1 for key, found in cases.items()}
        fastest = {key: min(found["peers"]) / found["bf16"] / longer[key] for key, found in cases.items()}
        parts = {key: found["part"] / longer[key] for key, found in cases.items() if key[2] == 32}
        rows += [(f"{dtype}: the engine is at least {goals.FASTEST:g} times as fast as the fastest PyTorch",
                  verdict(counts, fastest, goals.FASTEST, "bf16", gelu_apart)),
                 (f"{dtype}, batch 32: part of the rate of large products is at least {goals.PART:g}",
                  verdict(counts, parts, goals.PART, "bf16", gelu_apart))]
    rows.append((f"f32: the engine is at least {goals.FLOATS:g} times as fast as eager PyTorch",
                 verdict(counts, floats, goals.FLOATS, "f32")))
    return page.table(["goal, on each chip", "predicted"], rows)


# ---- Sentences

FLOAT_PEAK = {"A100": 19.5e12, "H100": 67e12, "H200": 67e12}  # of float32, by NVIDIA's data sheets (SXM)

def listed(names):
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def percent(share):
    return f"{100 * share:.0f} %"


def of_chips(values):
    """A list of values with their chips, such as "86 % on A100, and 80 % on H100 and H200". `values` is
    {chip: "86 %"}."""
    chips = {}
    for chip, value in values.items():
        chips.setdefault(value, []).append(chip)
    return ", and ".join(f"{value} on {listed(names)}" for value, names in chips.items())


def between(numbers, form):
    """The smallest and the largest number, such as "11 to 24 %". `form` converts a number to text."""
    low, high = (form(number) for number in (min(numbers), max(numbers)))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def f32_text(counts, cases):
    inner = counts["sass"]["90"]["multiply_split<128, true>"]["inner"]
    faster = {chip: between([found["f32 library"] / found["f32"] for key, found in cases.items() if key[0] == chip],
                            "{:.1f}".format) + " times as fast" for chip in CHIPS}
    return page.paragraph(f"""
        The compiled inner loop for compute capability 9.0 has {inner["HMMA"]} instructions for tensor cores, and
        {inner["all"] - inner["HMMA"]} others. By [the predictions](#predicted-times), whole models with this kernel are
        faster than with cuBLASLt in float32: {of_chips(faster)}.""")


def assumptions_text():
    def shares(key):
        return of_chips({name: percent(chip[key]) for name, chip in CHIPS.items()})
    return page.items([
        f"""In large bf16 products, cuBLAS reaches this share of the peak rate: {shares("large")}. Published
        measurements, which predict.py names, gave such shares. Products of little depth reach less.""",
        f"""In large float32 products, cuBLAS reaches {percent(predict.FLOAT_SHARE)} of the peak at the clock that the
        chip sustains. These are {of_chips({name: f"{float_rate(chip) / 1e12:.0f} TFLOPS" for name, chip in CHIPS.items()})}.
        The data sheets give the peak at a higher clock.""",
        "Bias and GELU at the end of a product of cuBLASLt cost nothing.",
        f"""The engine's own kernels reach {percent(predict.BUSY)} of the rate of their slowest unit. Their instruction for
        tensor cores reaches this share of the peak: {shares("mma")}. The lower figure
        was not checked against its source, the paper named [above](#f32-on-tensor-cores).""",
        f"Kernels reach {percent(predict.MEMORY_SHARE)} of the peak rate of memory.",
        f"""Each launch takes {predict.LAUNCH_S * 1e6:.0f} µs besides the time of its kernel. PyTorch without
        `torch.compile` takes {predict.EAGER_S * 1e6:.0f} µs on the host for each operation.""",
        "`torch.compile` joins all operations between two products into one launch. This favours PyTorch.",
        """The counts of instructions in projections include branches that are not always taken. This makes the predicted
        engine slower."""])


def models_text():
    return page.paragraph(f"""
        The model *shared* has one head of keys and values, and *full* has {SIZES["heads"]}. Both have {SIZES["depth"]}
        layers of {SIZES["dim"]} features, {SIZES["seq_len"]} rows and k {SIZES["k"]}. *Part of the rate* compares the
        engine with the rate that cuBLAS reaches in large products on this chip. *SDPA* is PyTorch's
        `scaled_dot_product_attention`. The column *cuBLASLt* gives the time if cuBLASLt computes all competing steps.
        The column *own kernels* gives the time if the engine's own kernels compute them. The last table compares the
        predictions with the goals of speed in `tests/gpu/goals.py`.""")


def competing(counts, dtype):
    """Returns (number of steps in which cuBLASLt is predicted to be faster, number of steps with two ways) in all
    runs."""
    won = everything = 0
    for name, model, batch in CASES:
        chip, element = CHIPS[name], 2 if dtype == "bf16" else 4
        for step in counts["engine"][f"{model} {dtype} {batch} {chip['processors']}"]:
            if "library" in step:
                library, kernel = (sum(predict.launch_s(chip, counts, launch, predict.whole(batch), element) + predict.LAUNCH_S
                                       for launch in step[way]) for way in WAYS)
                won += step["times"] * (library <= kernel)
                everything += step["times"]
    return won, everything


def float_rate(chip):
    """Returns the rate of cuBLAS in large float32 products, in operations per second."""
    return 2 * chip["lanes"] * chip["processors"] * chip["clock"] * predict.FLOAT_SHARE


def least_of_floats(counts, case):
    """Returns the time of eager PyTorch in f32, divided by the engine's time. This function assumes that cuBLAS reaches
    FLOAT_SHARE of the data sheet's float32 peak."""
    share = predict.FLOAT_SHARE
    try:
        predict.FLOAT_SHARE = share * share * FLOAT_PEAK[case[0]] / float_rate(CHIPS[case[0]])
        found = predict.predict(counts, *case)
    finally:
        predict.FLOAT_SHARE = share
    return found["eager f32"] / found["f32"]


def floats_text(counts):
    ratio, (chip, model, batch) = min((least_of_floats(counts, case), case) for case in CASES)
    return page.paragraph(f"""
        In f32, the prediction depends on the rate of cuBLAS. If cuBLAS reached {percent(predict.FLOAT_SHARE)} of the peak in
        the data sheets, the smallest ratio would be {ratio:.2f}, of {chip}, {model}, batch {batch}. The goal is
        {goals.FLOATS:g}.""")


def met_text(cases):
    parts = [found["part"] for key, found in cases.items() if key[2] == 32]
    met = [min(min(found["peers"]) / found["bf16"] for found in cases.values()) >= goals.FASTEST,
           min(parts) >= goals.PART,
           min(found["eager f32"] / found["f32"] for found in cases.values()) >= goals.FLOATS]
    margin = min(parts) / goals.PART - 1
    text = f"""If GELU costs nothing at the end of a product, the predictions meet
        {"all" if all(met) else sum(met)} of the {len(met)} goals. But the smallest part of the rate, {min(parts):.2f}, is
        only {percent(abs(margin))} {"below" if margin < 0 else "above"} the goal of {goals.PART:g}."""
    if abs(margin) < 0.15:
        text += f""" A prediction may be wrong by far more than that. So a measurement on a GPU may
            {"meet" if margin < 0 else "miss"} this goal."""
    return page.paragraph(text)


def gelu_text(cases):
    longer = [found["apart"] / found["bf16"] - 1 for found in cases.values()]
    least, (chip, model, batch) = min((min(found["peers"]) / found["apart"], key) for key, found in cases.items())
    missed = {key[0]: None for key, found in cases.items()
              if key[2] == 32 and found["part"] * found["bf16"] / found["apart"] < goals.PART}
    return page.paragraph(f"""
        On some chips, cuBLASLt's GELU may be slow. On such a chip, the engine uses its own kernel for bias and GELU. The
        rows *GELU by the own kernel* of the last table assume this. The times in bf16 are then {between(longer, percent)}
        longer than in the first table. The engine is then {least:.2f} times as fast as the fastest PyTorch on {chip}, with
        the model *{model}* at batch {batch}. In all other cases the ratio is larger. The goal of {percent(goals.PART)} is
        {f"missed on {listed(list(missed))}" if missed else "met"}. In all predictions, PyTorch computes GELU apart from the
        product, in another kernel.""")


def goals_text(counts, cases):
    (half, halves), (single, singles) = (competing(counts, dtype) for dtype in ("bf16", "f32"))
    return "\n".join((met_text(cases), floats_text(counts), page.paragraph(f"""
        In all runs of these tables together, cuBLASLt and kernels of the engine compete in {halves} steps in bf16, and in
        {singles} in f32. cuBLASLt is predicted to be faster in {half} of these steps in bf16, and in {single} in f32."""),
                      gelu_text(cases)))


def lengths_text(counts):
    lengths, rows = predict.LENGTHS, sum(predict.LENGTHS)
    return page.paragraph(f"""
        The table below is for a batch of {len(lengths)} items in bf16 with {len(lengths)} different lengths, from
        {min(lengths)} to {max(lengths)} rows. Together they have {rows} rows. [Grouped products](#how-batches-run) of cuBLAS
        or the engine's own kernel compute the projections. The prediction assumes that grouped products use the same
        instruction for tensor cores as the engine's own kernel. It also assumes that the host launches kernels faster
        than the device runs them.""") + "\n" + lengths_table(counts)


def written(counts):
    """Returns the blocks of docs/cuda.md, as {name: text}. `counts` is the content of counts.json."""
    cases = {case: predict.predict(counts, *case) for case in CASES}
    return {"f32": f32_text(counts, cases), "assumptions": assumptions_text(), "models": models_text(),
            "times": "\n".join((bf16_table(cases), f32_table(cases), goals_table(counts, cases))),
            "lengths": lengths_text(counts), "goals": goals_text(counts, cases)}
