"""tei-client: every call of its HTTP client."""

import asyncio
import sys

import httpx
from tei_client import HttpClient

from record import TEXTS, main, post, same, support, tried, vectors


@tried("tei-client", "health, info, prompt_names, and their async calls")
def described(builtin):
    client = HttpClient(builtin)
    info = client.info()
    assert client.health() and info.server_model_id == "builtin" and info.server_model_type.value == "embedding"
    assert client.prompt_names() == []

    async def calls():
        other = HttpClient(builtin)
        assert await other.async_health() and (await other.async_info()) == info
        assert await other.async_prompt_names() == []

    asyncio.run(calls())


@tried("tei-client", "embed, embed_all, and their async calls")
def embedded(builtin):
    client = HttpClient(builtin)
    same(client.embed(TEXTS), vectors(builtin))
    same(client.embed(TEXTS[0], normalize=False), vectors(builtin, TEXTS[:1], normalize=False))
    all_rows = post(f"{builtin}/embed_all", {"inputs": TEXTS[:1], "normalize": True})
    same(client.embed_all(TEXTS[0]), all_rows)

    async def calls():
        other = HttpClient(builtin)
        same(await other.async_embed(TEXTS), vectors(builtin))
        same(await other.async_embed_all(TEXTS[0]), all_rows)

    asyncio.run(calls())


@tried("tei-client", "tokenize, decode, and their async calls")
def tokens(builtin):
    client = HttpClient(builtin)
    results = client.tokenize(TEXTS)
    expected = post(f"{builtin}/tokenize", {"inputs": TEXTS})
    assert [result.get_ids() for result in results] == [[token["id"] for token in row] for row in expected]
    assert client.decode([result.get_ids() for result in results]) == TEXTS

    async def calls():
        other = HttpClient(builtin)
        again = await other.async_tokenize(TEXTS)
        assert again == results and await other.async_decode([result.get_ids() for result in again]) == TEXTS

    asyncio.run(calls())


@tried("tei-client", "classify, async_classify")
def classified(classes):
    client = HttpClient(classes)
    expected = post(f"{classes}/predict", {"inputs": [[text] for text in TEXTS]})
    found = client.classify(TEXTS)
    assert [[score.model_dump() for score in result.scores] for result in found] == expected

    async def calls():
        assert await HttpClient(classes).async_classify(TEXTS) == found

    asyncio.run(calls())
    (one,) = client.classify(TEXTS[0], raw_scores=True)
    (raw,) = post(f"{classes}/predict", {"inputs": [[TEXTS[0]]], "raw_scores": True})
    assert [score.model_dump() for score in one.scores] == raw


@tried("tei-client", "rerank", fails="no model of the daemon compares pairs of texts; use `/similarity`")
def reranked(builtin):
    support.expect(AssertionError, lambda: HttpClient(builtin).rerank("cp", TEXTS), "Reranker")
    answer = httpx.post(f"{builtin}/rerank", json={"query": "cp", "texts": TEXTS})
    assert 400 <= answer.status_code < 500 and answer.status_code != 404, answer


if __name__ == "__main__":
    sys.exit(main())
