"""The package openai, sync and asyncio, with models whose tokens are bytes."""

import asyncio
import base64
import os
import sys
import tempfile

import numpy as np
import openai

import support

MODEL = "builtin"
MODELS = [MODEL, "builtin-writer"]
COLUMNS = 192
KEY = "a-key"


def vectors(answer):
    return np.array([item.embedding for item in answer.data], np.float32)


def texts_and_ids(client):
    texts = client.embeddings.create(model=MODEL, input=["ab", "a longer text"])
    ids = client.embeddings.create(model=MODEL, input=[[100, 101]])
    one = client.embeddings.create(model=MODEL, input="ab", encoding_format="float")
    flat = client.embeddings.create(model=MODEL, input=[100, 101], user="somebody")
    assert vectors(texts).shape == (2, COLUMNS)
    assert np.allclose(np.linalg.norm(vectors(texts), axis=1), 1, atol=1e-5)
    for other in (ids, one, flat):
        assert np.allclose(vectors(texts)[:1], vectors(other), atol=1e-6)
    assert texts.object == "list" and texts.model == MODEL
    assert [item.index for item in texts.data] == [0, 1] and texts.data[0].object == "embedding"
    assert texts.usage.prompt_tokens == texts.usage.total_tokens == 15


def encodings(client):
    """Without encoding_format, the client requests base64, and decodes the answer. If the caller requests base64, the
    client returns the base64 text."""
    text = client.embeddings.create(model=MODEL, input="ab", encoding_format="base64").data[0].embedding
    floats = client.embeddings.create(model=MODEL, input="ab", encoding_format="float")
    plain = client.embeddings.create(model=MODEL, input="ab")
    assert isinstance(text, str)
    decoded = np.frombuffer(base64.b64decode(text), "<f4")
    assert (decoded == vectors(floats)[0]).all() and (decoded == vectors(plain)[0]).all()


def dimensions(client):
    whole = vectors(client.embeddings.create(model=MODEL, input="ab"))[0]
    cut = vectors(client.embeddings.create(model=MODEL, input="ab", dimensions=10))[0]
    assert np.allclose(cut, whole[:10] / np.linalg.norm(whole[:10]), atol=1e-6)


def models(client):
    assert [model.id for model in client.models.list()] == MODELS
    model = client.models.retrieve(MODEL)
    assert model.object == "model" and model.created > 1700000000 and model.owned_by


def errors(client, address):
    create = client.embeddings.create
    raised = support.expect(openai.NotFoundError, lambda: create(model="text-embedding-3-small", input="a"), "no model")
    assert raised.code == "model_not_found" and raised.type == "invalid_request_error"
    support.expect(openai.NotFoundError, lambda: client.models.retrieve("none"), "no model")
    support.expect(openai.BadRequestError, lambda: client.completions.create(model=MODEL, prompt="a"), "cannot generate")
    support.expect(openai.NotFoundError, lambda: client.images.generate(model=MODEL, prompt="a"), "no such path")
    support.expect(openai.BadRequestError, lambda: create(model=MODEL, input=""), "input is empty")
    support.expect(openai.BadRequestError, lambda: create(model=MODEL, input="a", dimensions=193), "have 192")
    # These are ids of tiktoken's vocabulary, which LangChain sends.
    support.expect(openai.BadRequestError, lambda: create(model=MODEL, input=[[9906, 1917]]), "9906", "below 259")
    stranger = openai.OpenAI(base_url=f"http://{address}/v1", api_key="another", max_retries=0)
    raised = support.expect(openai.AuthenticationError, lambda: stranger.models.list(), "API key")
    assert raised.code == "invalid_api_key"


def asyncio_client(address):
    async def calls():
        async with openai.AsyncOpenAI(base_url=f"http://{address}/v1", api_key=KEY, max_retries=0) as client:
            many = [client.embeddings.create(model=MODEL, input=["ab", f"text {i}"]) for i in range(20)]
            answers = await asyncio.gather(*many)
            assert all(np.allclose(vectors(answer)[0], vectors(answers[0])[0], atol=1e-6) for answer in answers)
            assert [model.id async for model in client.models.list()] == MODELS
            try:
                await client.embeddings.create(model="none", input="a")
            except openai.NotFoundError as error:
                assert error.code == "model_not_found"
            else:
                raise AssertionError("an unknown model was run")

    asyncio.run(calls())


def completions(client):
    """A whole answer has the fields that the client's types describe. The joined pieces of a stream are the same
    text."""
    options = dict(model="bytes", prompt=["caf\u00e9", "b"], max_tokens=40, temperature=1.5, n=2, seed=7, logprobs=2)
    whole = client.completions.create(**options, stop=["zzz"], user="somebody")
    assert whole.object == "text_completion" and whole.id.startswith("cmpl-") and whole.model == "bytes"
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
    texts, tokens, reasons = [""] * 4, [[] for _ in range(4)], [None] * 4
    usage, ids = [], set()
    for chunk in client.completions.create(**options, stream=True, stream_options={"include_usage": True}):
        ids.add(chunk.id)
        usage += [chunk.usage] if chunk.usage else []
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            tokens[choice.index] += choice.logprobs.tokens
            reasons[choice.index] = choice.finish_reason
    assert len(ids) == 1 and usage == [whole.usage]
    for choice, text, names, reason in zip(whole.choices, texts, tokens, reasons):
        assert (choice.text, choice.logprobs.tokens, choice.finish_reason) == (text, names, reason)
        assert reason in ("length", "stop")
        found = choice.logprobs
        assert len(found.tokens) == len(found.token_logprobs) == len(found.text_offset) == len(found.top_logprobs)
        assert all(top[token] == value for top, token, value in zip(found.top_logprobs, names, found.token_logprobs))
    assert whole.usage.prompt_tokens == 6 and whole.usage.completion_tokens == sum(map(len, tokens))
    echoed = client.completions.create(model="bytes", prompt=[100, 101], temperature=0, echo=True)
    plain = client.completions.create(model="bytes", prompt="ab", temperature=0, extra_body={"top_k": 3})
    assert echoed.choices[0].text == "ab" + plain.choices[0].text
    create = client.completions.create
    support.expect(openai.BadRequestError, lambda: create(model="bytes", prompt="a", temperature=-1), "temperature is -1")
    support.expect(openai.BadRequestError, lambda: create(model="bytes", prompt="", stream=True), "prompt is empty")


def streams_that_the_client_leaves(client):
    """A client may close a stream before its end, and send further requests on the same connections."""
    for _ in range(20):
        with client.completions.create(model="bytes", prompt="ab", max_tokens=1000000, stream=True) as stream:
            for _, chunk in zip(range(5), stream):
                assert len(chunk.choices) == 1
    assert client.completions.create(model="bytes", prompt="ab").choices


def asyncio_completions(address):
    async def text(client, seed):
        options = dict(model="bytes", prompt="ab", max_tokens=60, temperature=1.2, seed=seed)
        whole = await client.completions.create(**options)
        pieces = [chunk.choices[0].text async for chunk in await client.completions.create(**options, stream=True)]
        assert "".join(pieces) == whole.choices[0].text

    async def calls():
        async with openai.AsyncOpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0) as client:
            await asyncio.gather(*[text(client, seed) for seed in range(20)])

    asyncio.run(calls())


def generation():
    with tempfile.TemporaryDirectory() as folder:
        support.generating_model(os.path.join(folder, "bytes"))
        with support.Daemon("--model", os.path.join(folder, "bytes")) as daemon:
            client = openai.OpenAI(base_url=f"http://{daemon.address}/v1", api_key="none", max_retries=0)
            failed = support.run(
                [
                    ("openai: a completion is the same whole and as a stream", lambda: completions(client)),
                    ("openai: after streams that the client left, requests are answered", lambda: streams_that_the_client_leaves(client)),
                    ("openai: with asyncio, completions are the same whole and as streams", lambda: asyncio_completions(daemon.address)),
                ]
            )
            client.close()
    return failed


def embeddings():
    with support.Daemon("--api-key", KEY) as daemon:
        client = openai.OpenAI(base_url=f"http://{daemon.address}/v1", api_key=KEY, max_retries=0)
        failed = support.run(
            [
                ("openai: a text and its ids have the same vector", lambda: texts_and_ids(client)),
                ("openai: base64 and floats are the same vector", lambda: encodings(client)),
                ("openai: dimensions cuts and normalises the vector", lambda: dimensions(client)),
                ("openai: the models are listed and described", lambda: models(client)),
                ("openai: bad requests have the codes and messages of OpenAI's form", lambda: errors(client, daemon.address)),
                ("openai: calls with asyncio at once have the same vectors", lambda: asyncio_client(daemon.address)),
            ]
        )
        client.close()
    return failed


if __name__ == "__main__":
    sys.exit(1 if embeddings() + generation() else 0)
