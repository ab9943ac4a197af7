"""LlamaIndex' classes for text-embeddings-inference, for OpenAI's routes and for Hugging Face's client."""

import asyncio
import sys

from llama_index.embeddings.huggingface_api import HuggingFaceInferenceAPIEmbedding
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
from llama_index.llms.openai_like import OpenAILike

from record import PROMPT, TEXTS, completion, main, same, tried, vectors


def compare(make, address):
    expected = vectors(address)
    same(make().get_text_embedding_batch(TEXTS), expected)
    same(make().get_text_embedding(TEXTS[0]), expected[0])
    same(make().get_query_embedding(TEXTS[1]), expected[1])

    async def calls():
        client = make()
        same(await client.aget_text_embedding_batch(TEXTS), expected)
        same(await client.aget_text_embedding(TEXTS[0]), expected[0])
        same(await client.aget_query_embedding(TEXTS[1]), expected[1])

    asyncio.run(calls())


@tried("llama-index-embeddings-text-embeddings-inference", "TextEmbeddingsInference")
def tei(builtin):
    compare(lambda: TextEmbeddingsInference(model_name="builtin", base_url=builtin), builtin)


@tried("llama-index-embeddings-openai-like", "OpenAILikeEmbedding")
def openai_like(builtin):
    compare(lambda: OpenAILikeEmbedding(model_name="builtin", api_base=f"{builtin}/v1", api_key="none"), builtin)


@tried(
    "llama-index-embeddings-huggingface-api",
    "HuggingFaceInferenceAPIEmbedding",
    note="`model_name` is the address with `/embed`; set `pooling=None`. Each object can make only one "
    "synchronous call, because the package closes the event loop after the call. Asynchronous calls have no such limit",
)
def huggingface(builtin):
    keys = {"model_name": f"{builtin}/embed", "token": "none", "pooling": None}
    compare(lambda: HuggingFaceInferenceAPIEmbedding(**keys), builtin)


@tried("llama-index-llms-openai-like", "OpenAILike, also with stream_complete", note="set `is_chat_model=False`")
def openai_like_completions(builtin):
    keys = {"api_base": f"{builtin}/v1", "api_key": "none", "is_chat_model": False}
    client = OpenAILike(model="builtin-writer", max_tokens=8, temperature=0, context_window=1024, **keys)
    assert client.complete(PROMPT).text == completion(builtin)
    *_, last = client.stream_complete(PROMPT)
    assert last.text == completion(builtin)


if __name__ == "__main__":
    sys.exit(main())
