"""Semantic Kernel's services for OpenAI and Ollama."""

import asyncio
import sys

import openai
from semantic_kernel.connectors.ai.open_ai import (
    OpenAITextCompletion,
    OpenAITextEmbedding,
    OpenAITextPromptExecutionSettings,
)

from record import PROMPT, TEXTS, completion, main, same, tried, vectors

NOTE = "give it an `openai.AsyncOpenAI` with the `base_url`"


@tried("semantic-kernel", "OpenAITextEmbedding", note=NOTE)
def embedded(builtin):
    client = openai.AsyncOpenAI(base_url=f"{builtin}/v1", api_key="none")
    service = OpenAITextEmbedding(ai_model_id="builtin", async_client=client)
    same(asyncio.run(service.generate_embeddings(TEXTS)), vectors(builtin))


@tried("semantic-kernel", "OpenAITextCompletion", note=NOTE)
def completed(builtin):
    client = openai.AsyncOpenAI(base_url=f"{builtin}/v1", api_key="none")
    service = OpenAITextCompletion(ai_model_id="builtin-writer", async_client=client)
    settings = OpenAITextPromptExecutionSettings(max_tokens=8, temperature=0)
    (found,) = asyncio.run(service.get_text_contents(PROMPT, settings))
    assert found.text == completion(builtin)


if __name__ == "__main__":
    sys.exit(main())
