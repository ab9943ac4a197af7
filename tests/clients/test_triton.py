"""tritonclient, sync and asyncio, with the daemon. Sends every reference case in JSON and in binary, and some cases
with compression."""

import asyncio
import itertools
import sys

import ml_dtypes
import numpy as np
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

import support

COMPRESSIONS = [None, "gzip", "deflate"]


def tensors(inputs, binary):
    made = []
    for name, array in inputs.items():
        tensor = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array, binary_data=binary)
        made.append(tensor)
    return made


def wanted(names, binary):
    return [triton.InferRequestedOutput(name, binary_data=binary) for name in names]


def check(result, outputs):
    for name, expected in outputs.items():
        error = support.relative_error(result.as_numpy(name), expected)
        assert error <= support.TOLERANCE, f"{name}: relative error {error}"


def metadata(client, case):
    described = client.get_model_metadata(case)
    known = {tensor["name"]: tensor for tensor in described["inputs"]}
    outputs = {tensor["name"] for tensor in described["outputs"]}
    assert client.is_model_ready(case) and client.is_model_ready(case, "1")
    for inputs, expected in support.calls(case):
        assert set(expected) <= outputs
        for name, array in inputs.items():
            tensor = known[name]
            if name == "attn_mask":  # in the metadata, this input has two datatypes and two ranks
                continue
            if len(known.get("x", tensor)["shape"]) == 4 and name == "context":  # in the metadata, this context has any rank
                continue
            assert tensor["datatype"] == np_to_triton_dtype(array.dtype)
            assert len(tensor["shape"]) == array.ndim
            assert all(size in (-1, found) for size, found in zip(tensor["shape"], array.shape))


def infer(client, case):
    metadata(client, case)
    for inputs, outputs in support.calls(case):
        result = client.infer(case, tensors(inputs, True))
        (first,) = [output["name"] for output in result.get_response()["outputs"]]
        check(result, {first: outputs[first]})
        for binary_in, binary_out in itertools.product([True, False], repeat=2):
            check(client.infer(case, tensors(inputs, binary_in), outputs=wanted(outputs, binary_out)), outputs)


def halves(client, case):
    """The result for FP16 and BF16 arrays must be the result for the rounded arrays in FP32."""
    inputs, outputs = support.calls(case)[0]
    for datatype in ("FP16", "BF16"):
        narrow, wide = [], []
        for name, array in inputs.items():
            if array.dtype == np.float32:
                rounded = array.astype(np.float16 if datatype == "FP16" else ml_dtypes.bfloat16)
                tensor = triton.InferInput(name, list(array.shape), datatype)
                tensor.set_data_from_numpy(rounded, binary_data=True)
                narrow.append(tensor)
                wide += tensors({name: rounded.astype(np.float32)}, True)
            else:
                narrow += tensors({name: array}, True)
                wide += tensors({name: array}, True)
        found = client.infer(case, narrow, outputs=wanted(outputs, True))
        expected = client.infer(case, wide, outputs=wanted(outputs, True))
        for name in outputs:
            assert found.as_numpy(name).dtype == np.float32
            assert np.array_equal(found.as_numpy(name), expected.as_numpy(name)), (datatype, name)


def compressed(client, case):
    inputs, outputs = support.calls(case)[0]
    for request, response, binary in itertools.product(COMPRESSIONS, COMPRESSIONS, [True, False]):
        result = client.infer(
            case,
            tensors(inputs, binary),
            outputs=wanted(outputs, binary),
            request_compression_algorithm=request,
            response_compression_algorithm=response,
        )
        check(result, outputs)


def several_at_once(client, case):
    inputs, outputs = support.calls(case)[0]
    pending = [client.async_infer(case, tensors(inputs, True), request_id=str(i)) for i in range(20)]
    for i, call in enumerate(pending):
        result = call.get_result()
        assert result.get_response()["id"] == str(i)
        check(result, outputs)


def body_by_hand(client, case):
    """Posts the body with only the header for the length of the JSON, as clients without tritonclient's infer() do."""
    inputs, outputs = support.calls(case)[0]
    body, length = client.generate_request_body(tensors(inputs, True))
    response = client._post(
        f"v2/models/{case}/infer", body, {"Inference-Header-Content-Length": str(length)}, query_params=None
    )
    assert response.status_code == 200
    header = int(response.get("Inference-Header-Content-Length"))
    result = client.parse_response_body(response.read(), header_length=header)
    check(result, outputs)


def raw_bytes(client, case):
    """A header length of 0 means that the body is the bytes of the only input. The answer is the bytes of the
    output."""
    inputs, _ = support.calls(case)[0]
    (array,) = inputs.values()
    response = client._post(
        f"v2/models/{case}/infer", array[:1].tobytes(), {"Inference-Header-Content-Length": "0"}, query_params=None
    )
    header = int(response.get("Inference-Header-Content-Length"))
    result = client.parse_response_body(response.read(), header_length=header)
    together = client.infer(case, tensors({name: array[:1] for name, array in inputs.items()}, True))
    assert support.relative_error(result.as_numpy("output"), together.as_numpy("output")) <= 1e-6


def attention(client, case):
    """Outputs that the daemon computes only on request: the attention matrices P-bar of the Linformer paper, whose rows
    sum to one."""
    inputs, _ = support.calls(case)[0]
    result = client.infer(case, tensors(inputs, True), outputs=wanted(["attention.0"], True))
    probabilities = result.as_numpy("attention.0")
    assert result.as_numpy("output") is None and probabilities.ndim == 4
    assert np.allclose(probabilities.sum(axis=-1), 1, atol=1e-5)


def errors(client):
    ids = np.array([[1, 2, 3]], np.int64)

    def refused(status, part, model="linformer_lm", inputs=None, **options):
        call = lambda: client.infer(model, tensors(inputs or {"x": ids}, True), **options)
        raised = support.expect(InferenceServerException, call, part)
        assert raised.status() == str(status), raised.status()

    refused(404, "no model", model="none")
    refused(400, 'input "y" is unknown', inputs={"y": ids})
    refused(400, "INT64 or INT32 was expected", inputs={"x": ids.astype(np.float32)})
    refused(400, "[-1, -1] was expected", inputs={"x": ids[0]})
    refused(400, "[0][1] is 97", inputs={"x": np.array([[1, 97]], np.int64)})
    refused(400, "at most 24", inputs={"x": np.ones((1, 25), np.int64)})
    refused(400, 'output "logits" is unknown', outputs=wanted(["logits"], True))
    refused(400, "finite", model="linformer_encoder", inputs={"x": np.full((1, 2, 32), np.nan, np.float32)})
    support.expect(InferenceServerException, lambda: client.get_model_metadata("none"), "no model")
    assert not client.is_model_ready("none")


def server(client):
    assert client.is_server_live() and client.is_server_ready()
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    assert [model["name"] for model in client.get_model_repository_index()] == support.cases()


def asyncio_client(address):
    async def calls():
        async with triton_aio.InferenceServerClient(address) as client:
            assert await client.is_server_live() and await client.is_server_ready()
            assert (await client.get_model_metadata("linformer_lm"))["name"] == "linformer_lm"
            inputs, outputs = support.calls("linformer_lm")[0]
            for request, response, binary in itertools.product(COMPRESSIONS, COMPRESSIONS, [True, False]):
                result = await client.infer(
                    "linformer_lm",
                    tensors(inputs, binary),
                    outputs=wanted(outputs, binary),
                    request_compression_algorithm=request,
                    response_compression_algorithm=response,
                )
                check(result, outputs)
            many = [client.infer("linformer_lm", tensors(inputs, True)) for _ in range(20)]
            for result in await asyncio.gather(*many):
                check(result, outputs)
            try:
                await client.infer("none", tensors(inputs, True))
            except InferenceServerException as error:
                assert error.status() == "404"
            else:
                raise AssertionError("an unknown model was run")

    asyncio.run(calls())


def main():
    models = [argument for case in support.cases() for argument in ("--model", f"{support.CASES}/{case}")]
    with support.Daemon(*models) as daemon:
        client = triton.InferenceServerClient(daemon.address, concurrency=4)
        tests = [("tritonclient: the server is ready and lists its models", lambda: server(client))]
        for case in support.cases():
            tests.append((f"tritonclient: {case}: outputs agree in JSON and binary", lambda case=case: infer(client, case)))
        for case in ["linformer_lm", "linformer_attention"]:
            tests.append((f"tritonclient: {case}: outputs agree with gzip and deflate", lambda case=case: compressed(client, case)))
        for case in ["linformer_attention", "linear_attention_context_linformer", "linear_multihead_attention_attn_mask"]:
            tests.append((f"tritonclient: {case}: FP16 and BF16 have the outputs of rounded FP32", lambda case=case: halves(client, case)))
        tests += [
            ("tritonclient: several calls at once have their own outputs and ids", lambda: several_at_once(client, "linformer_lm")),
            ("tritonclient: a binary body made by hand is answered", lambda: body_by_hand(client, "linformer_lm")),
            ("tritonclient: a body of raw ids has a raw output as its answer", lambda: raw_bytes(client, "linformer_lm")),
            ("tritonclient: a body of raw floats has a raw output as its answer", lambda: raw_bytes(client, "linformer_encoder")),
            ("tritonclient: attention is returned on request, and its rows sum to one", lambda: attention(client, "linformer_encoder")),
            ("tritonclient: bad requests are refused with status and reason", lambda: errors(client)),
            ("tritonclient: outputs agree with asyncio", lambda: asyncio_client(daemon.address)),
        ]
        failed = support.run(tests)
        client.close()
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
