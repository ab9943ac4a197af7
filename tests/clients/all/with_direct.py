"""The packages openai, huggingface_hub and ollama. The scripts of `make test-clients` test many more calls of these
packages."""

import asyncio
import base64
import sys

import numpy as np
import ollama
import openai
from huggingface_hub import AsyncInferenceClient, InferenceClient

from record import PROMPT, TEXTS, completion, main, post, same, support, tried, vectors


@tried("openai", "embeddings, with OpenAI and AsyncOpenAI, as base64 and float, with dimensions")
def embeddings(builtin):
    keys = {"base_url": f"{builtin}/v1", "api_key": "none"}
    for options in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}, {"dimensions": 5}):
        expected = vectors(builtin, **({"dimensions": 5} if "dimensions" in options else {}))
        call = {"model": "builtin", "input": TEXTS, **options}
        answers = [openai.OpenAI(**keys).embeddings.create(**call)]
        answers.append(asyncio.run(openai.AsyncOpenAI(**keys).embeddings.create(**call)))
        for answer in answers:
            found = [entry.embedding for entry in answer.data]
            if options.get("encoding_format") == "base64":
                found = [np.frombuffer(base64.b64decode(text), "<f4") for text in found]
            same(found, expected)


@tried("openai", "completions, also with stream; models")
def completions(builtin):
    client = openai.OpenAI(base_url=f"{builtin}/v1", api_key="none")
    call = {"model": "builtin-writer", "prompt": PROMPT, "max_tokens": 8, "temperature": 0}
    assert client.completions.create(**call).choices[0].text == completion(builtin)
    chunks = client.completions.create(stream=True, **call)
    assert "".join(chunk.choices[0].text for chunk in chunks) == completion(builtin)
    assert [model.id for model in client.models.list()] == ["builtin", "builtin-writer"]


@tried("huggingface_hub", "feature_extraction", note="the address ends with `/embed`")
def feature_extraction(builtin):
    same(InferenceClient(model=f"{builtin}/embed", token="none").feature_extraction(TEXTS), vectors(builtin))
    client = AsyncInferenceClient(model=f"{builtin}/embed", token="none")
    same(asyncio.run(client.feature_extraction(TEXTS)), vectors(builtin))


@tried("huggingface_hub", "sentence_similarity, fill_mask", note="the address ends with `/similarity` or `/fill-mask`")
def similarity(builtin):
    client = InferenceClient(token="none")
    found = client.sentence_similarity(TEXTS[0], other_sentences=TEXTS[1:], model=f"{builtin}/similarity")
    inputs = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}
    assert found == post(f"{builtin}/similarity", {"inputs": inputs})
    text = "cp copies [MASK]iles."
    found = client.fill_mask(text, model=f"{builtin}/fill-mask")
    expected = post(f"{builtin}/fill-mask", {"inputs": text})
    assert [(fill.token, fill.score) for fill in found] == [(fill["token"], fill["score"]) for fill in expected]


@tried("huggingface_hub", "text_classification")
def classification(classes):
    found = InferenceClient(model=classes, token="none").text_classification(TEXTS[0])
    expected = post(f"{classes}/predict", {"inputs": TEXTS[0]})
    assert [(entry.label, entry.score) for entry in found] == [(entry["label"], entry["score"]) for entry in expected]


@tried("huggingface_hub", "text_generation, also with stream")
def generation(writer):
    keys = {"max_new_tokens": 8, "do_sample": False}
    text = post(f"{writer}/generate", {"inputs": PROMPT, "parameters": keys})["generated_text"]
    client = InferenceClient(model=writer, token="none")
    assert client.text_generation(PROMPT, **keys) == text
    assert "".join(client.text_generation(PROMPT, stream=True, **keys)) == text


@tried("ollama", "embed, embeddings")
def ollama_embed(builtin):
    client = ollama.Client(host=builtin)
    same(client.embed(model="builtin", input=TEXTS).embeddings, vectors(builtin))
    same(client.embeddings(model="builtin", prompt=TEXTS[1]).embedding, vectors(builtin)[1])


@tried("ollama", "generate, chat", fails="the daemon has only the routes for embeddings; use openai's completions")
def ollama_generate(builtin):
    client, model = ollama.Client(host=builtin), "builtin-writer"
    messages = [{"role": "user", "content": PROMPT}]
    for call in (lambda: client.generate(model, PROMPT), lambda: client.chat(model, messages)):
        assert support.expect(ollama.ResponseError, call).status_code == 404


if __name__ == "__main__":
    sys.exit(main())
