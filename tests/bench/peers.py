#!/usr/bin/env python3
"""Runs another library as a worker: loads a model once, and then reads commands from standard input.

    peers.py KIND FOLDER DTYPE [THREADS]

If KIND is torch, compile, onnxruntime or openvino, FOLDER holds a linformer.Linformer, or the module of models.py with
the folder's name. If KIND is keras, keras_function or keras_xla, FOLDER holds the model of dholland42's entrypoint.py,
which models.py saved. DTYPE is f32 or bf16. Without THREADS, a worker uses all cores. All workers read weights and
inputs from the same files, and run for inference.

Commands, one a line, and their answers:
    shape BATCH LENGTH FILE   reads its input from FILE: raw little-endian numbers of this shape. Prepares for the
                              shape, and runs once -> ready
    run SECONDS               runs for this time, at least once -> ms T1 T2 …
    save FILE                 writes the last output as raw f32 -> saved
    compare FILE              -> l2 E, the relative L2 distance of FILE's numbers from the last output
The answer to a command that fails is "failed MESSAGE". The output of libraries goes to standard error."""
import json
import os
import pathlib
import sys
import time
import warnings

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
warnings.simplefilter("ignore")

import numpy as np

THREADS = int(sys.argv[4]) if len(sys.argv) > 4 else len(os.sched_getaffinity(0))


class Torch:
    """PyTorch, module by module (eager mode). bf16: weights and activations are bf16, which is faster than the
    conversions of autocast."""

    input_dtype = np.float32

    def __init__(self, folder, dtype):
        import torch
        import models
        from linformer import Linformer
        from safetensors.torch import load_file
        self.torch, self.version = torch, f"torch {torch.__version__}"
        self.dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
        torch.set_num_threads(THREADS)
        with torch.device("meta"):  # the parameters have no memory, because load_state_dict replaces them
            if folder.name in models.MODULES:
                self.model = models.make_module(folder.name)
            else:
                self.model = Linformer(**json.loads((folder / "config.json").read_text())["kwargs"])
        self.model.load_state_dict(load_file(folder / "model.safetensors"), assign=True)
        self.model.to(self.dtype).eval().requires_grad_(False)

    def prepare(self, x):
        self.x = self.torch.from_numpy(x)
        if self.x.is_floating_point():
            self.x = self.x.to(self.dtype)

    def run(self):
        with self.torch.inference_mode():
            self.y = self.model(self.x)

    def output(self):
        return self.y.float().numpy()


class Compile(Torch):
    """torch.compile for one shape. The weights are constants, so inductor, its code generator, may choose their
    layout."""

    def prepare(self, x):
        import torch._dynamo
        import torch._inductor.config
        torch._inductor.config.freezing = True
        torch._dynamo.reset()
        super().prepare(x)
        self.compiled = self.torch.compile(self.model, dynamic=False)
        self.run()  # the next run, which is not measured either, compiles once more

    def run(self):
        with self.torch.inference_mode():
            self.y = self.compiled(self.x)


class OnnxRuntime(Torch):
    """ONNX Runtime with the graph that torch.onnx exports for the shape."""

    def __init__(self, folder, dtype):
        import onnxruntime
        if dtype != "f32":
            raise ValueError("ONNX Runtime's CPU provider has no bf16 kernels for these operations")
        super().__init__(folder, dtype)
        self.folder, self.runtime = folder, onnxruntime
        self.version = f"onnxruntime {onnxruntime.__version__}"

    def prepare(self, x):
        path = self.folder / f"batch_{x.shape[0]}_length_{x.shape[1]}.onnx"
        self.torch.onnx.export(self.model, (self.torch.from_numpy(x),), path, input_names=["x"], output_names=["y"],
                               dynamo=True, verbose=False)
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.graph_optimization_level = self.runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = self.runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        for part in (path, path.with_name(path.name + ".data")):
            part.unlink(missing_ok=True)
        self.inputs = {"x": x}

    def run(self):
        self.y, = self.session.run(None, self.inputs)

    def output(self):
        return self.y


class OpenVino(Torch):
    """OpenVINO with the model converted for the shape. The model is optimised for the time of one call ("latency"),
    which is measured."""

    def __init__(self, folder, dtype):
        import openvino
        super().__init__(folder, "f32")
        self.openvino, self.precision = openvino, dtype
        self.version = f"openvino {openvino.__version__.split('-')[0]}"
        self.core = openvino.Core()

    def prepare(self, x):
        example = self.torch.from_numpy(x[:1])  # a batch of one needs little memory when PyTorch runs it
        model = self.openvino.convert_model(self.model, example_input=example, input=list(x.shape))
        compiled = self.core.compile_model(model, "CPU", {
            "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": THREADS,
            "INFERENCE_PRECISION_HINT": self.precision})
        self.request = compiled.create_infer_request()
        self.inputs = {0: x}

    def run(self):
        self.y = self.request.infer(self.inputs, share_inputs=True, share_outputs=True)[0]

    def output(self):
        return self.y


class Keras:
    """The model as entrypoint.py runs it: model.predict."""

    input_dtype = np.int32
    jit_compile = False

    def __init__(self, folder, dtype):
        import models
        import tensorflow
        if dtype != "f32":
            raise ValueError("the entrypoint has no other precision")
        self.tensorflow, self.version = tensorflow, f"tensorflow {tensorflow.__version__}"
        tensorflow.config.threading.set_intra_op_parallelism_threads(THREADS)
        self.model = models.keras_load(folder)

    def prepare(self, x):
        self.x = x

    def run(self):
        self.y = self.model.predict(self.x, verbose=0)

    def output(self):
        return self.y


class KerasFunction(Keras):
    """The model as one graph (tf.function), without predict's handling of batches and callbacks."""

    def prepare(self, x):
        self.x = self.tensorflow.constant(x)
        self.function = self.tensorflow.function(lambda ids: self.model(ids, training=False),
                                                 jit_compile=self.jit_compile)

    def run(self):
        self.y = self.function(self.x).numpy()


class KerasXla(KerasFunction):
    """The model as one graph, compiled with XLA."""

    jit_compile = True


KINDS = {"torch": Torch, "compile": Compile, "onnxruntime": OnnxRuntime, "openvino": OpenVino, "keras": Keras,
         "keras_function": KerasFunction, "keras_xla": KerasXla}


def relative_l2(found, expected):
    found, expected = found.ravel().astype(np.float64), expected.ravel().astype(np.float64)
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def read_input(peer, folder, batch, length, path):
    import models
    module = models.MODULES.get(folder.name)
    if module:
        dtype, shape = np.int32 if "vocabulary" in module else np.float32, (batch, *module["shape"])
    else:
        kwargs = json.loads((folder / "config.json").read_text())["kwargs"]
        dtype, shape = peer.input_dtype, (batch, length, *([kwargs["dim"]] if "dim" in kwargs else []))
    return np.fromfile(path, dtype).reshape(shape)


def obey(peer, folder, command, arguments):
    if command == "shape":
        peer.prepare(read_input(peer, folder, int(arguments[0]), int(arguments[1]), arguments[2]))
        peer.run()
        return "ready"
    if command == "run":
        begin, times = time.perf_counter(), []
        while not times or time.perf_counter() - begin < float(arguments[0]):
            start = time.perf_counter()
            peer.run()
            times.append(1e3 * (time.perf_counter() - start))
        return "ms " + " ".join(f"{ms:.4f}" for ms in times)
    if command == "save":
        np.ascontiguousarray(peer.output(), np.float32).tofile(arguments[0])
        return "saved"
    if command == "compare":
        return f"l2 {relative_l2(np.fromfile(arguments[0], np.float32), peer.output()):.3e}"
    raise ValueError(f"no command {command}")


def answer(text):
    print(" ".join(text.split()), file=answers, flush=True)


def fail(error):
    answer(f"failed {type(error).__name__}: {str(error)[:300]}")


def main():
    kind, folder, dtype = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    try:
        peer = KINDS[kind](folder, dtype)
    except Exception as error:
        return fail(error)
    answer(f"ready {peer.version}")
    for line in sys.stdin:
        command, *arguments = line.split()
        try:
            answer(obey(peer, folder, command, arguments))
        except Exception as error:
            fail(error)


if __name__ == "__main__":
    main()
