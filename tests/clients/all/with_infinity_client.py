"""infinity-client: every call of its API that accepts texts."""

import sys

from infinity_client import Client
from infinity_client.api.default import classify, embeddings, health, metrics_metrics_get, models, rerank
from infinity_client.models import ClassifyInput, OpenAIEmbeddingInputText, RerankInput

from record import TEXTS, main, post, same, support, tried, vectors


def client_of(address):
    return Client(base_url=address, raise_on_unexpected_status=True)


@tried("infinity-client", "embeddings")
def embedded(builtin):
    body = OpenAIEmbeddingInputText(input_=TEXTS, model="builtin")
    found = embeddings.sync(client=client_of(builtin), body=body)
    same([entry.embedding for entry in found.data], vectors(builtin))


@tried("infinity-client", "health, metrics")
def described(builtin):
    assert health.sync_detailed(client=client_of(builtin)).status_code == 200
    answer = metrics_metrics_get.sync_detailed(client=client_of(builtin))
    assert answer.status_code == 200


@tried("infinity-client", "models",
       fails="the client expects keys that only Infinity sends: `stats`, and `owned_by` with the value `infinity`")
def listed(builtin):
    support.expect(KeyError, lambda: models.sync(client=client_of(builtin)), "stats")


@tried("infinity-client", "classify")
def classified(classes):
    for raw in (False, True):
        body = ClassifyInput(input_=TEXTS, model="classes", raw_scores=raw)
        found = classify.sync(client=client_of(classes), body=body)
        rows = post(f"{classes}/predict", {"inputs": TEXTS, "raw_scores": raw})
        assert [[entry.to_dict() for entry in row] for row in found.data] == rows
        assert found.model == "classes" and found.usage.total_tokens > 0


@tried("infinity-client", "rerank", fails="no model of the daemon compares pairs of texts; use `/similarity`")
def reranked(builtin):
    body = RerankInput(query="cp", documents=TEXTS, model="builtin")
    assert rerank.sync_detailed(client=client_of(builtin), body=body).status_code == 422


if __name__ == "__main__":
    sys.exit(main())
