"""LangChain's classes. The script runs with the releases 1 and 0.3 of langchain-openai."""

import asyncio
import sys
from importlib.metadata import version

from langchain_huggingface import HuggingFaceEndpoint, HuggingFaceEndpointEmbeddings
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

from record import PROMPT, TEXTS, completion, main, post, same, support, tried, vectors


@tried("langchain-openai", "OpenAIEmbeddings", note="set `check_embedding_ctx_length=False`")
def openai_embeddings(builtin):
    client = OpenAIEmbeddings(
        base_url=f"{builtin}/v1", api_key="none", model="builtin", check_embedding_ctx_length=False
    )
    same(client.embed_documents(TEXTS), vectors(builtin))
    same(client.embed_query(TEXTS[1]), vectors(builtin)[1])
    same(asyncio.run(client.aembed_documents(TEXTS)), vectors(builtin))


@tried("langchain-openai", "OpenAI, also with stream")
def openai_completions(builtin):
    client = OpenAI(base_url=f"{builtin}/v1", api_key="none", model="builtin-writer", max_tokens=8, temperature=0)
    assert client.invoke(PROMPT) == completion(builtin)
    assert "".join(client.stream(PROMPT)) == completion(builtin)


@tried("langchain-openai", "ChatOpenAI", fails="the daemon has no `/v1/chat/completions`, because no model has a chat format")
def openai_chat(builtin):
    client = ChatOpenAI(base_url=f"{builtin}/v1", api_key="none", model="builtin-writer", max_retries=0)
    support.expect(Exception, lambda: client.invoke(PROMPT), "404")


def endpoint_embeddings_of(address):
    return HuggingFaceEndpointEmbeddings(model=f"{address}/embed", huggingfacehub_api_token="none")


def endpoint_embeddings(builtin):
    client = endpoint_embeddings_of(builtin)
    same(client.embed_documents(TEXTS), vectors(builtin))
    same(client.embed_query(TEXTS[1]), vectors(builtin)[1])


def endpoint_embeddings_refused(builtin):
    support.expect(ValueError, lambda: endpoint_embeddings_of(builtin), "not a URL")


if version("langchain-huggingface").startswith("0."):
    note = "`model` is the address with `/embed`"
    tried("langchain-huggingface", "HuggingFaceEndpointEmbeddings", note=note)(endpoint_embeddings)
else:
    why = "the class refuses the address of any server; use OpenAIEmbeddings"
    tried("langchain-huggingface", "HuggingFaceEndpointEmbeddings", fails=why)(endpoint_embeddings_refused)


@tried("langchain-huggingface", "HuggingFaceEndpoint, also with stream")
def endpoint(writer):
    keys = {"max_new_tokens": 8, "do_sample": False}
    client = HuggingFaceEndpoint(endpoint_url=writer, huggingfacehub_api_token="none", **keys)
    text = post(f"{writer}/generate", {"inputs": PROMPT, "parameters": keys})["generated_text"]
    assert client.invoke(PROMPT) == text
    assert "".join(client.stream(PROMPT)) == text


if __name__ == "__main__":
    sys.exit(main())
