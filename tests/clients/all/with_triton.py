"""tritonclient with asyncio, and its calls that describe and control models."""

import asyncio
import sys

import numpy as np
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException

from record import TEXTS, get, main, post, same, support, tried


def texts_tensor(name):
    array = np.array([text.encode() for text in TEXTS], dtype=object)
    return triton.InferInput(name, [len(TEXTS)], "BYTES").set_data_from_numpy(array)


def logits(address):
    """Logits of the classes from the native route /predict, in the order of the labels."""
    scores = post(f"{address}/predict", {"inputs": [[text] for text in TEXTS], "raw_scores": True})
    return [[next(s["score"] for s in row if s["label"] == label) for label in support.LABELS] for row in scores]


@tried("tritonclient", "http: infer with texts (BYTES)")
def infer(classes):
    client = triton.InferenceServerClient(classes.removeprefix("http://"))
    same(client.infer("classes", [texts_tensor("ids")]).as_numpy("output"), logits(classes))


@tried("tritonclient", "http.aio: infer, metadata, readiness")
def infer_aio(classes):
    async def calls():
        async with triton_aio.InferenceServerClient(classes.removeprefix("http://")) as client:
            assert await client.is_server_live() and await client.is_server_ready()
            assert await client.is_model_ready("classes") and not await client.is_model_ready("none")
            assert (await client.get_model_metadata("classes")) == get(f"{classes}/v2/models/classes")
            assert (await client.get_server_metadata()) == get(f"{classes}/v2")
            results = await asyncio.gather(*[client.infer("classes", [texts_tensor("ids")]) for _ in range(10)])
            for result in results:
                same(result.as_numpy("output"), logits(classes))

    asyncio.run(calls())


@tried("tritonclient", "http and http.aio: get_model_config, get_inference_statistics, get_model_repository_index")
def described(classes):
    async def calls():
        async with triton_aio.InferenceServerClient(address) as client:
            found = await client.get_inference_statistics("classes")
            assert found["model_stats"][0]["inference_count"] > 0
            return await client.get_model_config("classes"), await client.get_model_repository_index()

    address = classes.removeprefix("http://")
    client = triton.InferenceServerClient(address)
    client.infer("classes", [texts_tensor("ids")])
    config = client.get_model_config("classes")
    assert config["name"] == "classes" and [tensor["name"] for tensor in config["input"]] == ["ids"]
    rows = client.get_model_repository_index()
    assert [(row["name"], row["state"]) for row in rows] == [("classes", "READY"), ("bytes", "READY")]
    before = client.get_inference_statistics("classes")["model_stats"][0]["inference_count"]
    client.infer("classes", [texts_tensor("ids")])
    after = client.get_inference_statistics("classes")["model_stats"][0]["inference_count"]
    assert after == before + len(TEXTS)
    assert asyncio.run(calls()) == (config, rows)


@tried("tritonclient", "http and http.aio: load_model, unload_model", note="set `--model-control`")
def controlled(classes, builtin):
    async def calls():
        async with triton_aio.InferenceServerClient(address) as client:
            await client.unload_model("bytes")
            assert not await client.is_model_ready("bytes")
            await client.load_model("bytes")
            assert await client.is_model_ready("bytes")

    address = classes.removeprefix("http://")
    client = triton.InferenceServerClient(address)
    client.unload_model("bytes")
    assert not client.is_model_ready("bytes")
    client.load_model("bytes")
    assert client.is_model_ready("bytes")
    asyncio.run(calls())
    other = triton.InferenceServerClient(builtin.removeprefix("http://"))
    support.expect(InferenceServerException, lambda: other.load_model("builtin"), "--model-control")


@tried("tritonclient", "http: class_count")
def class_count(classes):
    client = triton.InferenceServerClient(classes.removeprefix("http://"))
    for binary in (True, False):
        outputs = [triton.InferRequestedOutput("output", binary_data=binary, class_count=2)]
        found = client.infer("classes", [texts_tensor("ids")], outputs=outputs).as_numpy("output")
        assert found.shape == (len(TEXTS), 2), found.shape
        for texts, row in zip(found, logits(classes)):
            best = sorted(range(len(row)), key=lambda i: -row[i])[:2]
            cells = [(text if isinstance(text, str) else text.decode()).split(":") for text in texts]
            assert [cell[1:] for cell in cells] == [[str(i), support.LABELS[i]] for i in best], cells
            same([float(cell[0]) for cell in cells], [row[i] for i in best])


if __name__ == "__main__":
    sys.exit(main())
