"""Ollama's client, and openai's client for Azure, with the daemon. Their vectors are compared with the vectors of
/embed."""

import json
import sys
import urllib.request

import ollama
import openai

import support

TEXTS = ["cp copies files.", "mv moves files."]


def embed(address):
    body = json.dumps({"inputs": TEXTS}).encode()
    request = urllib.request.Request(f"http://{address}/embed", body, {"Authorization": "Bearer secret"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def ollama_client(address):
    client = ollama.Client(host=f"http://{address}", headers={"Authorization": "Bearer secret"})
    vectors = embed(address)
    answer = client.embed(model="builtin", input=TEXTS)
    assert [list(vector) for vector in answer.embeddings] == vectors
    assert answer.model == "builtin" and answer.prompt_eval_count == sum(len(text) for text in TEXTS)
    assert len(client.embed(model="builtin", input=TEXTS[0], dimensions=3).embeddings[0]) == 3
    assert list(client.embeddings(model="builtin", prompt=TEXTS[1]).embedding) == vectors[1]
    error = support.expect(ollama.ResponseError, lambda: client.embed(model="none", input="a"), "no model")
    assert error.status_code == 404


def azure_client(address):
    client = openai.AzureOpenAI(azure_endpoint=f"http://{address}", api_key="secret", api_version="2024-10-21")
    vectors = embed(address)
    answer = client.embeddings.create(model="builtin", input=TEXTS, encoding_format="float")
    assert [entry.embedding for entry in answer.data] == vectors
    prompt = {"prompt": "This option", "max_tokens": 4, "temperature": 0}
    text = client.completions.create(model="builtin-writer", **prompt).choices[0].text
    preview = openai.OpenAI(base_url=f"http://{address}/openai/v1", api_key="secret")
    assert preview.completions.create(model="builtin-writer", **prompt).choices[0].text == text
    assert [model.id for model in preview.models.list()] == ["builtin", "builtin-writer"]
    missing = lambda: client.embeddings.create(model="none", input="a")
    assert support.expect(openai.NotFoundError, missing, "no model").code == "model_not_found"
    stranger = openai.AzureOpenAI(azure_endpoint=f"http://{address}", api_key="other", api_version="1", max_retries=0)
    support.expect(openai.AuthenticationError, lambda: stranger.embeddings.create(model="builtin", input="a"), "key")


def main():
    with support.Daemon("--api-key", "secret") as daemon:
        return support.run(
            [
                ("ollama: embed and embeddings return the vectors of /embed", lambda: ollama_client(daemon.address)),
                ("openai: AzureOpenAI returns the vectors of /embed, and completes", lambda: azure_client(daemon.address)),
            ]
        )


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
