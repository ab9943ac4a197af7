"""qdrant-client with an index in memory, filled with vectors of the daemon."""

import sys

from qdrant_client import QdrantClient, models

from record import TEXTS, main, tried, vectors


@tried("qdrant-client", "upsert and query_points over vectors of /embed", note="the program embeds, and gives the vectors to Qdrant")
def searched(builtin):
    client, found = QdrantClient(":memory:"), vectors(builtin)
    size = models.VectorParams(size=len(found[0]), distance=models.Distance.COSINE)
    client.create_collection("texts", vectors_config=size)
    points = [models.PointStruct(id=i, vector=v, payload={"text": TEXTS[i]}) for i, v in enumerate(found)]
    client.upsert("texts", points)
    (best,) = client.query_points("texts", query=vectors(builtin, [TEXTS[1]])[0], limit=1).points
    assert best.payload["text"] == TEXTS[1] and abs(best.score - 1) < 1e-6


if __name__ == "__main__":
    sys.exit(main())
