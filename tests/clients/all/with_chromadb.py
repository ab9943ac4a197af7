"""Chroma's embedding functions for OpenAI and Hugging Face servers, and a collection that uses one of these
functions."""

import sys

import chromadb
from chromadb.utils.embedding_functions import HuggingFaceEmbeddingServer, OpenAIEmbeddingFunction

from record import TEXTS, main, same, tried, vectors


def search(function, name, address):
    same(function(TEXTS), vectors(address))
    settings = chromadb.Settings(anonymized_telemetry=False)
    collection = chromadb.EphemeralClient(settings).create_collection(name, embedding_function=function)
    collection.add(ids=["0", "1"], documents=TEXTS)
    assert collection.query(query_texts=[TEXTS[1]], n_results=1)["ids"] == [["1"]]


@tried("chromadb", "OpenAIEmbeddingFunction, and a collection with it")
def openai(builtin):
    keys = {"api_key": "none", "api_base": f"{builtin}/v1", "model_name": "builtin"}
    search(OpenAIEmbeddingFunction(**keys), "openai", builtin)


@tried("chromadb", "HuggingFaceEmbeddingServer, and a collection with it", note="`url` is the address with `/embed`")
def huggingface(builtin):
    search(HuggingFaceEmbeddingServer(url=f"{builtin}/embed"), "huggingface", builtin)


if __name__ == "__main__":
    sys.exit(main())
