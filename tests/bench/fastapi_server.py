#!/usr/bin/env python3
"""The server that linformerd is compared with: FastAPI, uvicorn and PyTorch with micro-batching.

    fastapi_server.py FOLDER PORT [pad|equal]

FOLDER holds a linformer.LinformerLM. POST /embed {"inputs": [[ids]]} answers with mean-pooled, normalised vectors of
the last hidden state. The requests that arrive while a batch runs form the next batch. A batch has at most MAX_BATCH
sequences. The server counts the requests in the last batch and those that waited when it began. If there was more than
one, it waits until as many requests wait again, at most MAX_BATCH, but not longer than MAX_WAIT_S.

pad: a batch is padded to its longest sequence, and pooled over the real rows. The library has no mask. So its
projection of keys and values includes the padding, and a vector depends on the other sequences of the batch.
equal: only sequences of equal length share a batch, so the vectors are those of the library."""
import asyncio
import concurrent.futures
import contextlib
import json
import pathlib
import sys

import torch
import uvicorn
from fastapi import FastAPI
from linformer import LinformerLM
from pydantic import BaseModel
from safetensors.torch import load_file

MAX_BATCH = 32
MAX_WAIT_S = 0.002


class Embedder:
    def __init__(self, folder):
        with torch.device("meta"):  # the parameters have no memory, because load_state_dict replaces them
            self.model = LinformerLM(**json.loads((folder / "config.json").read_text())["kwargs"])
        self.model.load_state_dict(load_file(folder / "model.safetensors"), assign=True)
        self.model.eval().requires_grad_(False)

    @torch.inference_mode()
    def embed(self, sequences):
        lengths = torch.tensor([len(ids) for ids in sequences])
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in sequences], batch_first=True)
        x = self.model.token_emb(ids) + self.model.pos_emb(torch.arange(ids.shape[1]))
        hidden = self.model.linformer(x)
        real = torch.arange(ids.shape[1]) < lengths[:, None]
        pooled = (hidden * real[..., None]).sum(1) / lengths[:, None]
        return torch.nn.functional.normalize(pooled).tolist()


class Batcher:
    def __init__(self, embedder, only_equal):
        self.embedder, self.only_equal = embedder, only_equal
        self.waiting, self.arrived = [], asyncio.Event()
        self.thread = concurrent.futures.ThreadPoolExecutor(1)  # each thread would start a pool of OpenMP

    async def embed(self, ids):
        answer = asyncio.get_running_loop().create_future()
        self.waiting.append((ids, answer))
        self.arrived.set()
        return await answer

    def take(self):
        length = len(self.waiting[0][0])
        batch = [item for item in self.waiting if not self.only_equal or len(item[0]) == length][:MAX_BATCH]
        taken = {id(item) for item in batch}
        self.waiting = [item for item in self.waiting if id(item) not in taken]
        return batch

    async def wait_for(self, count, limit_s):
        """Waits until `count` requests have arrived, but at most for `limit_s`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + limit_s
        while len(self.waiting) < count and loop.time() < end:
            self.arrived.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.arrived.wait(), end - loop.time())

    async def run(self):
        last = 1
        while True:
            while not self.waiting:
                self.arrived.clear()
                await self.arrived.wait()
            if last > 1:
                await self.wait_for(min(last, MAX_BATCH), MAX_WAIT_S)
            batch = self.take()
            last = len(batch) + len(self.waiting)
            try:
                vectors = await asyncio.get_running_loop().run_in_executor(
                    self.thread, self.embedder.embed, [ids for ids, _ in batch])
                for (_, answer), vector in zip(batch, vectors):
                    answer.set_result(vector)
            except Exception as error:
                for _, answer in batch:
                    answer.set_exception(error)


class EmbedRequest(BaseModel):
    inputs: list[list[int]]


batcher = Batcher(Embedder(pathlib.Path(sys.argv[1])), sys.argv[3:] == ["equal"])


@contextlib.asynccontextmanager
async def lifespan(app):
    task = asyncio.create_task(batcher.run())
    yield
    task.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/embed")
async def embed(request: EmbedRequest) -> list[list[float]]:
    return await asyncio.gather(*(batcher.embed(ids) for ids in request.inputs))


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[2]), log_level="warning")
