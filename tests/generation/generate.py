"""Writes greedy.json, greedy_more.json, scores.json and sampling.json. They hold the ids that
linear-attention-transformer and linformer-pytorch generate, and probabilities of tokens.

    pip install torch safetensors linear-attention-transformer==0.19.1 linformer-pytorch==0.19.3 transformers
    python3 tests/generation/generate.py

greedy.json has the ids that AutoregressiveWrapper.generate gives for the causal models of tests/reference, also beyond
max_seq_len. With filter_thres 0.98, the wrapper's top_k keeps one of 61 ids, so the wrapper's choice is greedy.

greedy_more.json has such ids for the other causal language models of tests/reference. A decoder reads the output of its
encoder for the ids `source`. A model with a context reads the rows `context`. linformer-pytorch has no
AutoregressiveWrapper. So the wrapper of linear-attention-transformer calls the model through linformer-pytorch's
Padder.

For each token of a prompt after the first, scores.json has the log-probability of this token, and the largest
log-probability of any token at its place. The models see the tokens before this token, at most max_seq_len of them, as
the wrapper shows them.

sampling.json has logits, options, and the probabilities after the filters of linear-attention-transformer or of
transformers.
"""
import json
import os

import torch
from linear_attention_transformer import LinearAttentionTransformerLM
from linear_attention_transformer.autoregressive_wrapper import AutoregressiveWrapper, top_k, top_p
from random_models import Padded, Pair, wrapper_of
from linear_attention_transformer_cases import in_python
from linformer_pytorch import LinformerLM
from safetensors.torch import load_file
from transformers.generation import logits_process

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, "..", "reference")
MODELS = ["linear_attention_lm_causal", "linear_attention_lm_causal_blindspot_1",
          "linear_attention_lm_causal_local_shift", "linear_attention_lm_everything"]
MORE_MODELS = ["linear_attention_context_linformer", "linear_attention_encoder_decoder", "linformer_pytorch_lm_causal"]
SOURCES = [[3, 1, 4, 1, 5], list(range(60, 0, -1))]
PROMPTS = [[5, 6, 7, 8], [1], list(range(40)), [i % 61 for i in range(100)]]
NEW_TOKENS = 200


def load(name):
    """Returns AutoregressiveWrapper around a reference model, and the other inputs of the model's forward()."""
    with open(os.path.join(CASES, name, "config.json")) as file:
        kwargs = json.load(file)["kwargs"]
    tensors = load_file(os.path.join(CASES, name, "model.safetensors"))
    if name.startswith("linformer_pytorch"):
        model = LinformerLM(**kwargs)
        model.load_state_dict(tensors, strict=False)
        return wrapper_of(Padded(model.eval()), kwargs["input_size"]), [{}]
    if "enc" in kwargs:
        sides = [LinearAttentionTransformerLM(**in_python(kwargs[side])).eval() for side in ("enc", "dec")]
        for side, model in zip(("enc.", "dec."), sides):
            model.load_state_dict({key[4:]: tensor for key, tensor in tensors.items() if key.startswith(side)},
                                  strict=False)
        return (wrapper_of(Pair(*sides), kwargs["dec"]["max_seq_len"]),
                [{"source": torch.tensor([source])} for source in SOURCES])
    model = LinearAttentionTransformerLM(**in_python(kwargs))
    model.load_state_dict(tensors, strict=False)
    inputs = {}
    if kwargs.get("receives_context"):
        inputs["context"] = (torch.randn(1, 20, kwargs["dim"], generator=torch.Generator().manual_seed(5)) * 8).round() / 8
    return AutoregressiveWrapper(model), [inputs]


def greedy(models):
    runs = []
    for name in models:
        wrapper, more = load(name)
        for inputs in more:
            for prompt in PROMPTS:
                prompt = [id % 53 for id in prompt] if name.startswith("linformer_pytorch") else prompt
                ids = wrapper.generate(torch.tensor([prompt]), NEW_TOKENS, filter_thres=0.98, **inputs)
                runs.append({"model": name, "prompt": prompt, "ids": ids[0].tolist()} |
                            {key: tensor[0].tolist() for key, tensor in inputs.items()})
    return runs


def scores(models):
    runs = []
    for name in models:
        wrapper, more = load(name)
        prompt = [i * i % 53 for i in range(100)]
        found, largest = [], []
        for i in range(1, len(prompt)):
            window = torch.tensor([prompt[max(0, i - wrapper.max_seq_len):i]])
            with torch.no_grad():
                row = wrapper.net(window, **more[0])[0, -1].double().log_softmax(-1)
            found.append(row[prompt[i]].item())
            largest.append(row.max().item())
        runs.append({"model": name, "prompt": prompt, "logprobs": found, "largest": largest})
    return runs


def of_wrapper(logits, options):
    """The probabilities, with the steps in the order of AutoregressiveWrapper.generate: first a filter, and then the
    temperature."""
    if "filter_thres" in options:
        logits = top_k(logits, thres=options["filter_thres"])
    if options.get("top_p_library"):
        logits = top_p(logits, thres=options["top_p"])
    return torch.softmax(logits / options.get("temperature", 1.0), dim=-1)


def of_transformers(logits, options, history):
    """The probabilities, with the steps in the order of transformers and of text-generation-inference."""
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
            if found.isnan().any():  # with a small vocabulary, the library's top_k keeps no token
                continue
            cases.append({"options": options, "history": history, "logits": logits[0].tolist(),
                          "probabilities": found[0].double().tolist()})
    return cases


def write(name, value):
    with open(os.path.join(HERE, name), "w") as file:
        json.dump(value, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("greedy.json", greedy(MODELS))
    write("greedy_more.json", greedy(MORE_MODELS))
    write("scores.json", scores(MODELS + ["linformer_pytorch_lm_causal"]))
    write("sampling.json", sampling())
