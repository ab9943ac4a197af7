"""Haystack's embedders for OpenAI, and its embedders for Hugging Face."""

import sys

from haystack import Document
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.utils import Secret

try:  # since release 3, these embedders are in a separate package
    from haystack_integrations.components.embedders import huggingface_api as embedders

    PACKAGE = "huggingface-api-haystack"
except ImportError:
    from haystack.components import embedders

    PACKAGE = "haystack-ai"

from record import TEXTS, main, same, tried, vectors

TOKEN = Secret.from_token("none")


def compare(text, documents, expected):
    same(text.run(TEXTS[0])["embedding"], expected[0])
    found = documents.run([Document(content=content) for content in TEXTS])["documents"]
    same([document.embedding for document in found], expected)


@tried("haystack-ai", "OpenAITextEmbedder, OpenAIDocumentEmbedder")
def openai(builtin):
    keys = {"api_key": TOKEN, "api_base_url": f"{builtin}/v1", "model": "builtin"}
    compare(OpenAITextEmbedder(**keys), OpenAIDocumentEmbedder(progress_bar=False, **keys), vectors(builtin))


@tried(
    PACKAGE,
    "HuggingFaceAPITextEmbedder, HuggingFaceAPIDocumentEmbedder",
    note="`url` is the address with `/embed`; vectors have the length 1 with `normalize=True`",
)
def huggingface(builtin):
    keys = {"api_type": "text_embeddings_inference", "api_params": {"url": f"{builtin}/embed"}, "token": TOKEN}
    text = embedders.HuggingFaceAPITextEmbedder(**keys)
    documents = embedders.HuggingFaceAPIDocumentEmbedder(progress_bar=False, **keys)
    compare(text, documents, vectors(builtin, normalize=False))


if __name__ == "__main__":
    sys.exit(main())
