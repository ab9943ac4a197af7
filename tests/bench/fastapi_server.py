#!/usr/bin/env python3
"""The server that linformerd is compared with: FastAPI, uvicorn and PyTorch with micro-batching, as one writes it.

    fastapi_server.py FOLDER PORT [pad|equal]

FOLDER holds a linformer.LinformerLM. POST /embed {"inputs": [[ids]]} answers with mean-pooled, normalised vectors of
the last hidden state. What has arrived while a batch ran forms the next one, of at most MAX_BATCH; where the last one
had several requests, others are likely to come, and are waited for, MAX_WAIT_S at most and until there are as many.
pad: a batch is padded to its longest sequence and pooled over the real rows. The library has no mask, so padding takes
part in its projection of keys and values, and a vector depends on what else was in the batch; that is the price of
batching this library's models. equal: only sequences of one length share a batch, so that vectors are the library's
own."""
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
        with torch.device("meta"):  # no weights that would be overwritten at once
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
        self.thread = concurrent.futures.ThreadPoolExecutor(1)  # one, or each would have OpenMP threads of its own

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
        """Until so many are waiting, or for so long."""
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
