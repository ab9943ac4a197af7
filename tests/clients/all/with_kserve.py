"""KServe's client of the Open Inference Protocol over HTTP."""

import asyncio
import sys

import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig

from record import main, post, same, tried


def request(binary):
    ids = InferInput(name="x", shape=[1, 3], datatype="INT64")
    ids.set_data_from_numpy(np.array([[5, 17, 3]]), binary_data=binary)
    return InferRequest(model_name="builtin", infer_inputs=[ids])


@tried("kserve", "InferenceRESTClient: infer in JSON and as bytes, readiness")
def infer(builtin):
    body = {"inputs": [{"name": "x", "shape": [1, 3], "datatype": "INT64", "data": [5, 17, 3]}]}
    (expected,) = post(f"{builtin}/v2/models/builtin/infer", body)["outputs"]
    expected = np.array(expected["data"]).reshape(expected["shape"])

    async def calls():
        async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
            assert await client.is_server_live(builtin) and await client.is_server_ready(builtin)
            assert await client.is_model_ready(builtin, "builtin")
            for binary in (False, True):
                answer = await client.infer(builtin, request(binary), model_name="builtin", headers={})
                same(answer.outputs[0].as_numpy(), expected)

    asyncio.run(calls())


if __name__ == "__main__":
    sys.exit(main())
