"""litellm's providers for self-hosted servers."""

import sys

import litellm

from record import PROMPT, TEXTS, completion, main, post, same, support, tried, vectors

litellm.suppress_debug_info = True


def embedded(model, address, texts=TEXTS):
    data = litellm.embedding(model=model, input=texts, api_base=address, api_key="none").data
    return [entry["embedding"] for entry in data]


@tried("litellm", "embedding, with `openai/`")
def openai(builtin):
    same(embedded("openai/builtin", f"{builtin}/v1"), vectors(builtin))


@tried("litellm", "text_completion, with `text-completion-openai/`")
def openai_completions(builtin):
    keys = {"api_base": f"{builtin}/v1", "api_key": "none", "max_tokens": 8, "temperature": 0}
    answer = litellm.text_completion(model="text-completion-openai/builtin-writer", prompt=PROMPT, **keys)
    assert answer.choices[0].text == completion(builtin)


@tried("litellm", "embedding, with `hosted_vllm/`")
def vllm(builtin):
    same(embedded("hosted_vllm/builtin", f"{builtin}/v1"), vectors(builtin))


@tried("litellm", "embedding, with `infinity/`")
def infinity(builtin):
    same(embedded("infinity/builtin", builtin), vectors(builtin))


@tried("litellm", "embedding, with `triton/` and texts (BYTES)", note="the output of the model has two dimensions")
def triton(classes):
    found = embedded("triton/classes", f"{classes}/v2/models/classes/infer")
    scores = post(f"{classes}/predict", {"inputs": [[text] for text in TEXTS], "raw_scores": True})
    labels = support.LABELS
    same(found, [[next(s["score"] for s in row if s["label"] == label) for label in labels] for row in scores])


@tried(
    "litellm",
    "embedding, with `triton/` and a model with a row for each token",
    fails="litellm refuses outputs of more than two dimensions; use `openai/`",
)
def triton_rows(builtin):
    call = lambda: embedded("triton/builtin", f"{builtin}/v2/models/builtin/infer", TEXTS[:1])
    support.expect(Exception, call, "Shape must be of length 2")


if __name__ == "__main__":
    sys.exit(main())
