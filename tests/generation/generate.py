"""Writes greedy.json and sampling.json: what linear-attention-transformer and transformers generate and choose.

    pip install torch safetensors linear-attention-transformer==0.19.1 transformers
    python3 tests/generation/generate.py

greedy.json has the ids that AutoregressiveWrapper.generate gives for the causal models of tests/reference, also past
max_seq_len. With filter_thres 0.98 the wrapper's top_k keeps one of 61 ids, so its choice is greedy.
sampling.json has logits, options and the probabilities that the filters of both libraries leave.
"""
import json
import os

import torch
from linear_attention_transformer import LinearAttentionTransformerLM
from linear_attention_transformer.autoregressive_wrapper import AutoregressiveWrapper, top_k, top_p
from safetensors.torch import load_file
from transformers.generation import logits_process

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, "..", "reference")
MODELS = ["linear_attention_lm_causal", "linear_attention_lm_causal_blindspot_1",
          "linear_attention_lm_causal_local_shift", "linear_attention_lm_everything"]
PROMPTS = [[5, 6, 7, 8], [1], list(range(40)), [i % 61 for i in range(100)]]
NEW_TOKENS = 200


def greedy():
    runs = []
    for name in MODELS:
        with open(os.path.join(CASES, name, "config.json")) as file:
            kwargs = json.load(file)["kwargs"]
        model = LinearAttentionTransformerLM(**kwargs)
        model.load_state_dict(load_file(os.path.join(CASES, name, "model.safetensors")), strict=False)
        wrapper = AutoregressiveWrapper(model)
        for prompt in PROMPTS:
            ids = wrapper.generate(torch.tensor([prompt]), NEW_TOKENS, filter_thres=0.98)
            runs.append({"model": name, "prompt": prompt, "ids": ids[0].tolist()})
    return runs


def of_wrapper(logits, options):
    """The order of AutoregressiveWrapper.generate: a filter, then the temperature."""
    if "filter_thres" in options:
        logits = top_k(logits, thres=options["filter_thres"])
    if options.get("top_p_library"):
        logits = top_p(logits, thres=options["top_p"])
    return torch.softmax(logits / options.get("temperature", 1.0), dim=-1)


def of_transformers(logits, options, history):
    """The order of transformers and of text-generation-inference."""
    ids = torch.tensor([history], dtype=torch.long)
    if "repetition_penalty" in options:
        logits = logits_process.RepetitionPenaltyLogitsProcessor(options["repetition_penalty"])(ids, logits)
    if "temperature" in options:
        logits = logits_process.TemperatureLogitsWarper(options["temperature"])(ids, logits)
    if "top_k" in options:
        logits = logits_process.TopKLogitsWarper(options["top_k"])(ids, logits)
    if "top_p" in options:
        logits = logits_process.TopPLogitsWarper(options["top_p"])(ids, logits)
    if "min_p" in options:
        logits = logits_process.MinPLogitsWarper(options["min_p"])(ids, logits)
    return torch.softmax(logits, dim=-1)


LIBRARY = [{"filter_thres": 0.9}, {"filter_thres": 0.5, "temperature": 0.7}, {"filter_thres": 0.0},
           {"top_p": 0.9, "top_p_library": True}, {"top_p": 0.3, "top_p_library": True, "temperature": 1.5}]
USUAL = [{}, {"temperature": 0.5}, {"temperature": 2.0}, {"top_k": 5}, {"top_k": 1}, {"top_k": 1000},
         {"top_p": 0.9}, {"top_p": 0.2, "temperature": 1.3}, {"min_p": 0.1}, {"min_p": 0.5, "temperature": 2.0},
         {"top_k": 20, "top_p": 0.8, "min_p": 0.05, "temperature": 0.9}, {"repetition_penalty": 1.5},
         {"repetition_penalty": 0.7, "top_k": 7}]


def sampling():
    torch.manual_seed(15)
    cases = []
    for vocabulary in (61, 7):
        for options in LIBRARY + USUAL:
            logits = torch.round(torch.randn(1, vocabulary) * 2 * 1000) / 1000
            history = torch.randint(vocabulary, (6,)).tolist()
            library = "filter_thres" in options or options.get("top_p_library")
            found = of_wrapper(logits, options) if library else of_transformers(logits, options, history)
            if found.isnan().any():  # the library's top_k keeps no token of a small vocabulary
                continue
            cases.append({"options": options, "history": history, "logits": logits[0].tolist(),
                          "probabilities": found[0].double().tolist()})
    return cases


def write(name, value):
    with open(os.path.join(HERE, name), "w") as file:
        json.dump(value, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    write("greedy.json", greedy())
    write("sampling.json", sampling())
