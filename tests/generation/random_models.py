#!/usr/bin/env python3
"""Writes random.tar.gz: random causal language models, and what the libraries generate with them, greedily.

    pip install torch safetensors linear-attention-transformer==0.19.1 linformer-pytorch==0.19.3
    python3 tests/generation/random_models.py [--seed 1] [--out tests/generation/random.tar.gz]

The archive has a folder NAME_SEED for each model. It contains config.json and model.safetensors, as weights/export.py
writes them, and runs.json. runs.json has prompts and the 200 ids that follow each prompt. For a decoder it also has the
ids of the source, and for a model with a context or embeddings it has these rows. Seeds are consecutive numbers from
--seed. A seed is left out if the library refuses its model or its lengths.

If two ids were nearly as likely, rounding could choose between them. So a run counts only if the best logit is above
the second by MARGIN in every step, in float as well as in double. Rounding changes these logits by some 1e-6. A run
counts only if it has at least MIN_DIFFERENT_IDS different ids. Weights have few different values, which keeps the archive
small."""
import argparse
import gzip
import io
import json
import multiprocessing
import pathlib
import random
import sys
import tarfile
import tempfile
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "weights"), str(HERE.parents[1] / "tests" / "libraries")]

import torch
from export import export, export_module
from linear_attention_transformer import LinearAttentionTransformer, LinearAttentionTransformerLM
from linear_attention_transformer.autopadder import Autopadder
from linear_attention_transformer.autoregressive_wrapper import AutoregressiveWrapper, top_k
from linear_attention_transformer_cases import in_python
from linformer_pytorch import LinformerEncDec, LinformerLM, Padder

NEW_TOKENS = 200
MARGIN = 5e-4
MIN_DIFFERENT_IDS = 4
LEVELS = 7      # number of different values of a weight on each side of 0
ATTEMPTS = 6    # number of tried prompts of each length
AT_ONCE = 16    # number of seeds that the processes share
OUT_SCALE = 5   # factor of the logits, which enlarges the distances between them


class TooClose(Exception):
    """Two ids are nearly as likely, or too few different ids were generated."""


def greedy(logits, thres):
    """A filter_logits_fn for the library. Returns the logits after a top_k that keeps one id. Raises TooClose if the
    two largest logits are nearly equal."""
    best = logits.topk(2).values[0]
    if best[0] - best[1] < MARGIN:
        raise TooClose
    return top_k(logits, 1 - 1.5 / logits.shape[-1])


def few_values(model):
    """Moves the parameters of norms and the biases away from 0 and 1, enlarges the logits, and rounds all weights to a
    few values."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
            if name.endswith(("out.weight", "to_logits.weight", "head.weight")) and "to_out" not in name:
                parameter.mul_(OUT_SCALE)
            levels = 1 if parameter.numel() > 50000 else LEVELS  # large parameters get only three values
            step = parameter.abs().max() / levels
            parameter.copy_((parameter / step).round() * step)
    return model.eval()


def wrapper_of(net, max_seq_len):
    """AutoregressiveWrapper around a function of ids. The function replaces the wrapper's Autopadder."""
    wrapper = AutoregressiveWrapper.__new__(AutoregressiveWrapper)
    torch.nn.Module.__init__(wrapper)
    wrapper.net, wrapper.max_seq_len = net, max_seq_len
    return wrapper


class Padded(torch.nn.Module):
    """linformer-pytorch's Padder for ids without a mask."""

    def __init__(self, net):
        super().__init__()
        self.net = Padder(net)

    def forward(self, x, input_mask=None, **inputs):
        return self.net(x, **inputs)


def ids(rng, vocabulary, count):
    return [rng.randrange(vocabulary) for _ in range(count)]


# ---- linear-attention-transformer


def lm_kwargs(rng):
    heads, window = rng.choice([1, 2, 3, 4]), rng.choice([2, 4, 6, 8, 12, 16])
    kwargs = {"num_tokens": rng.randint(11, 60), "dim": heads * rng.choice([4, 6]), "depth": rng.choice([1, 1, 2, 3]),
              "heads": heads, "dim_head": rng.choice([4, 6, 8]), "causal": True, "local_attn_window_size": window,
              "max_seq_len": window * rng.randint(2, 8) if rng.random() < 0.75 else window * -(-320 // window)}
    if rng.random() < 0.5:
        layers = [rng.randint(0, heads) for _ in range(kwargs["depth"])]
        kwargs["n_local_attn_heads"] = layers if rng.random() < 0.5 else rng.randint(0, heads)
    elif rng.random() < 0.3:
        kwargs["max_seq_len"] = rng.randint(20, 90)
    if rng.random() < 0.6:
        kwargs["blindspot_size"] = rng.choice([1, 2, 3, 4, 8, window])
    for name, probability in (("attend_axially", 0.2), ("reversible", 0.3), ("ff_glu", 0.4), ("shift_tokens", 0.4)):
        if rng.random() < probability:
            kwargs[name] = True
    if rng.random() < 0.08:
        kwargs["pkm_layers"] = [rng.randint(1, kwargs["depth"])]
    if rng.random() < 0.2:
        kwargs["ff_chunks"] = rng.randint(1, 3)
    if rng.random() < 0.25 and not kwargs.get("attend_axially"):
        kwargs["use_rotary_emb"] = True
        kwargs["dim"] += kwargs["dim"] % 2 * heads
    elif rng.random() < 0.4:
        kwargs["use_axial_pos_emb"] = False
    if rng.random() < 0.25:
        kwargs["emb_dim"] = 2 * rng.randint(3, 9)
    return kwargs


def language_model(rng):
    kwargs = lm_kwargs(rng)
    model = few_values(LinearAttentionTransformerLM(**in_python(kwargs)))
    return Model("lm", Autopadder(model), in_python(kwargs), AutoregressiveWrapper(model), kwargs["num_tokens"], {})


def with_context(rng):
    kwargs = lm_kwargs(rng) | {"receives_context": True}
    kwargs.pop("use_rotary_emb", None)
    if rng.random() < 0.4:
        kwargs["context_linformer_settings"] = {"seq_len": 24, "k": rng.randint(2, 9)}
    model = few_values(LinearAttentionTransformerLM(**in_python(kwargs)))
    context = (torch.randn(1, rng.randint(1, 24), kwargs["dim"]) * 8).round() / 8
    return Model("context", Autopadder(model), in_python(kwargs), AutoregressiveWrapper(model), kwargs["num_tokens"],
                 {"context": context})


class Pair(torch.nn.Module):
    """The encoder and decoder of linear-attention-transformer's README."""

    def __init__(self, enc, dec):
        super().__init__()
        self.enc, self.dec = Autopadder(enc), Autopadder(dec)

    def forward(self, x, source, input_mask=None):
        return self.dec(x, context=self.enc(source), **({} if input_mask is None else {"input_mask": input_mask}))


def pair(rng):
    enc, dec = lm_kwargs(rng), lm_kwargs(rng) | {"receives_context": True}
    enc |= {"causal": rng.random() < 0.3, "return_embeddings": True}
    enc.pop("emb_dim", None)
    heads = rng.choice([h for h in (1, 2, 3) if enc["dim"] % h == 0])
    dec |= {"dim": enc["dim"], "heads": heads, "n_local_attn_heads": rng.randint(0, heads)}
    dec["max_seq_len"] = dec["local_attn_window_size"] * rng.randint(2, 8)
    kwargs = {"enc": enc, "dec": dec}
    models = [few_values(LinearAttentionTransformerLM(**in_python(side))) for side in (enc, dec)]
    source = torch.tensor([ids(rng, enc["num_tokens"], rng.randint(1, enc["max_seq_len"]))])
    return Model("pair", tuple(models), {side: in_python(kwargs[side]) for side in kwargs},
                 wrapper_of(Pair(*models), dec["max_seq_len"]), dec["num_tokens"], {"source": source})


class Around(torch.nn.Module):
    """A language model without positions around the causal LinearAttentionTransformer."""

    def __init__(self, vocabulary, kwargs):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, kwargs["dim"])
        self.gate = torch.nn.Linear(kwargs["dim"], kwargs["dim"])
        self.transformer = LinearAttentionTransformer(**kwargs)
        self.head = torch.nn.Linear(kwargs["dim"], vocabulary)

    def forward(self, ids):
        x = self.embedding(ids)
        y = self.transformer(x)
        return self.head(y * torch.sigmoid(self.gate(x)))


class AroundIds(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x, input_mask=None):
        return self.module(x)


def module(rng):
    heads, vocabulary = rng.choice([1, 2, 3]), rng.randint(11, 60)
    kwargs = {"dim": heads * rng.choice([4, 6]), "depth": rng.choice([1, 2]), "heads": heads, "max_seq_len": 64,
              "causal": True, "shift_tokens": rng.random() < 0.7, "reversible": rng.random() < 0.3}
    around = few_values(Around(vocabulary, kwargs))
    example = {"ids": torch.randint(vocabulary, (2, 9))}
    return Model("module", around, example, wrapper_of(AroundIds(around), 1 << 20), vocabulary, {},
                 export=lambda model, example, folder, **_: export_module(model, example, folder, daemon=False))


# ---- linformer-pytorch


def pytorch_kwargs(rng, size):
    heads = rng.choice([1, 2, 3])
    kwargs = {"channels": heads * 4 * rng.randint(1, 3), "dim_k": rng.randint(2, 9), "dim_ff": rng.randint(8, 40),
              "nhead": heads, "depth": rng.choice([1, 2]), "num_tokens": rng.randint(11, 60), "input_size": size,
              "parameter_sharing": rng.choice(["none", "headwise", "kv", "layerwise"])}
    if rng.random() < 0.3:
        kwargs["dim_d"] = rng.randint(3, 8)
    if rng.random() < 0.3:
        kwargs["method"] = rng.choice(["no_params", "convolution"])
    if rng.random() < 0.2:
        kwargs["full_attention"] = True
    return kwargs


def linformer_lm(rng):
    size = rng.randint(20, 64)
    kwargs = pytorch_kwargs(rng, size) | {"causal": True}
    if rng.random() < 0.3:
        kwargs["emb_dim"] = 2 * rng.randint(3, 9)
    model = few_values(LinformerLM(**kwargs))
    return Model("linformer", Padder(model), kwargs, wrapper_of(Padded(model), size), kwargs["num_tokens"], {})


def linformer_decoder(rng):
    """A model in decoder_mode. Padder appends zeros only to the ids. So `embeddings` must have seq_len rows."""
    size = rng.randint(20, 64)
    kwargs = pytorch_kwargs(rng, size) | {"causal": True, "decoder_mode": True}
    model = few_values(LinformerLM(**kwargs))
    embeddings = (torch.randn(1, size, kwargs["channels"]) * 8).round() / 8
    return Model("decoder", Padder(model), kwargs, wrapper_of(Padded(model), size), kwargs["num_tokens"],
                 {"embeddings": embeddings})


class PaddedPair(torch.nn.Module):
    """Encoder and decoder. Both sequences are padded with zeros at the end, as Padder does for the other classes."""

    def __init__(self, pair):
        super().__init__()
        self.pair, self.size = pair, pair.encoder.input_size

    def forward(self, x, source, input_mask=None):
        source, padded = (torch.nn.functional.pad(t, (0, self.size - t.shape[1])) for t in (source, x))
        return self.pair(source.expand(x.shape[0], -1), padded)[:, :x.shape[1]]


def linformer_pair(rng):
    size = rng.randint(20, 64)
    enc, dec = pytorch_kwargs(rng, size), pytorch_kwargs(rng, size)
    dec |= {"channels": enc["channels"], "nhead": enc["nhead"]}
    kwargs = {f"{side}_{name}": value for side, given in (("enc", enc), ("dec", dec)) for name, value in given.items()}
    model = few_values(LinformerEncDec(**kwargs))
    source = torch.tensor([ids(rng, enc["num_tokens"], rng.randint(1, size))])
    return Model("linformer_pair", model, kwargs, wrapper_of(PaddedPair(model), size), dec["num_tokens"],
                 {"source": source}, {"padding": "zero"})


# ---- Runs


class Model:
    def __init__(self, kind, exported, kwargs, wrapper, vocabulary, inputs, config=None, export=export):
        self.export = export
        self.kind, self.exported, self.kwargs, self.wrapper = kind, exported, kwargs, wrapper
        self.vocabulary, self.inputs, self.config = vocabulary, inputs, config or {}

    def generate(self, prompt):
        found = self.wrapper.generate(torch.tensor([prompt]), NEW_TOKENS, filter_logits_fn=greedy, **self.inputs)
        if len(set(found[0].tolist())) < MIN_DIFFERENT_IDS:
            raise TooClose
        return found[0].tolist()

    def check_in_double(self, prompt, found):
        """In double precision, each id must also have the largest logit, by at least MARGIN."""
        most, sequence = self.wrapper.max_seq_len, prompt + found
        self.wrapper.double()
        inputs = {name: t.double() if t.is_floating_point() else t for name, t in self.inputs.items()}
        try:
            for i in range(len(prompt), len(sequence)):
                with torch.no_grad():
                    window = torch.tensor([sequence[max(0, i - most):i]])
                    best = self.wrapper.net(window, **inputs)[0, -1].topk(2)
                if best.indices[0] != sequence[i] or best.values[0] - best.values[1] < MARGIN:
                    raise TooClose
        finally:
            self.wrapper.float()

    def runs(self, rng):
        """Yields a run with a short prompt, and a run with a prompt of any length. Leaves out a run for which none of
        ATTEMPTS prompts counts."""
        most = self.wrapper.max_seq_len
        for longest in (min(6, most), min(most + most // 2, 600)):
            for _ in range(ATTEMPTS):
                prompt = ids(rng, self.vocabulary, rng.randint(1, longest))
                try:
                    found = self.generate(prompt)
                    self.check_in_double(prompt, found)
                except TooClose:
                    continue
                run = {"prompt": prompt, "ids": found}
                for name, tensor in self.inputs.items():
                    run[name] = tensor[0].tolist()
                yield run
                break

    def files(self, runs):
        for module in self.wrapper.modules():
            if hasattr(module, "cpu_state"):  # state for random numbers of reversible layers, which only training needs
                module.cpu_state = None
        with tempfile.TemporaryDirectory() as folder:
            self.export(self.exported, self.kwargs, folder, daemon=False, **self.config)
            found = {name: pathlib.Path(folder, name).read_bytes() for name in ("config.json", "model.safetensors")}
        return found | {"runs.json": json.dumps(runs, separators=(",", ":")).encode()}


KINDS = [(84, language_model), (8, with_context), (8, pair), (12, linformer_lm), (6, linformer_pair),
         (4, module), (6, linformer_decoder)]


def draw(arguments):
    """Returns the seed, the name of the folder, and the folder's files. If the library raises an error, or if there are
    no runs, returns the seed, None and a reason."""
    make, seed = arguments
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rng = random.Random(seed)
    torch.manual_seed(seed)
    try:
        model = make(rng)
        runs = list(model.runs(rng))
    except (AssertionError, RuntimeError, IndexError) as error:  # these are errors of the library
        return seed, None, f"{type(error).__name__}: {str(error)[:100]}"
    if not runs:
        return seed, None, "ids too close, or too few"
    return seed, f"{model.kind}_{seed}", model.files(runs)


def add(archive, name, content):
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=HERE / "random.tar.gz")
    options = parser.parse_args()
    first = options.seed
    with open(options.out, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive, \
            multiprocessing.Pool() as pool:
        for wanted, make in KINDS:
            while wanted > 0:
                for seed, name, files in pool.map(draw, [(make, first + i) for i in range(AT_ONCE)], chunksize=1):
                    print(seed, make.__name__, f"{len(json.loads(files['runs.json']))} runs" if name else files)
                    for file, content in files.items() if name and wanted > 0 else ():
                        add(archive, f"{name}/{file}", content)
                    wanted -= name is not None
                sys.stdout.flush()
                first += AT_ONCE


if __name__ == "__main__":
    main()
