#!/usr/bin/env python3
"""Records what the library's AutoregressiveWrapper generates, for the tests: examples.json.

    python3 examples.py --model .

The choices are greedy. A continuation ends before the first token that is nearly as likely as another one, so that
rounding cannot change the ids.
"""
import argparse
import json
from pathlib import Path

import torch
from linear_attention_transformer.autoregressive_wrapper import AutoregressiveWrapper
from tokenizers import Tokenizer

from evaluate import load
from train_tokenizer import END

PROMPTS = ["The following options", "This function returns", "To install the package,"]
TOKENS = 48
MIN_GAP = 1e-3  # least difference between the two highest logits


def continuation(model, ids):
    """The greedy continuation that the wrapper generates, and the logit of each of its tokens.

    With a filter_thres that leaves one token, the wrapper's choices are greedy."""
    wrapper = AutoregressiveWrapper(model)
    thres = 1 - 1.5 / model.out.out_features
    new = wrapper.generate(torch.tensor(ids), TOKENS, eos_token=END, filter_thres=thres).tolist()
    with torch.no_grad():
        padded = torch.tensor(ids + new + [END] * (-(len(ids) + len(new)) % 64))[None]
        best = model(padded)[0].topk(2).values
    best = best[len(ids) - 1:len(ids) + len(new) - 1]
    close = (best[:, 0] - best[:, 1] < MIN_GAP).nonzero()
    end = close[0].item() if len(close) else len(new)
    return new[:end], [round(value, 5) for value in best[:end, 0].tolist()]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", type=Path, required=True)
    options = options.parse_args()
    torch.manual_seed(1)
    model, tokenizer = load(options.model), Tokenizer.from_file(str(options.model / "tokenizer.json"))
    examples = []
    for prompt in PROMPTS:
        ids = tokenizer.encode(prompt).ids
        new, logits = continuation(model, ids)
        examples.append({"prompt": prompt, "ids": ids, "new_ids": new, "logits": logits, "text": tokenizer.decode(new)})
    lines = ",\n ".join(json.dumps(example) for example in examples)
    (options.model / "examples.json").write_text(f"[{lines}]\n")


if __name__ == "__main__":
    main()
