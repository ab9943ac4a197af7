"""The parts that the cases of PyTorch classes share."""

import copy
import dataclasses
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file

from case import Case, export


@dataclasses.dataclass
class TorchCase(Case):
    seed: int = 0  # seed of the weights

    def build(self, kwargs):
        """Returns the module with initial weights."""
        raise NotImplementedError

    def forward(self, model, inputs, attentions):
        """Returns the class's own output, or outputs by name. Appends each attention P-bar (batch, heads, n, k) to
        `attentions`."""
        raise NotImplementedError

    def make(self, kwargs):
        torch.manual_seed(self.seed)
        model = self.build(kwargs).eval()
        with torch.no_grad():
            for parameter in model.parameters():  # norms and biases must not have their initial values 0 and 1
                parameter.add_(torch.randn_like(parameter) * 0.05)
        return model

    def call(self, model, call):
        attentions = []
        with torch.no_grad():
            outputs = self.forward(model, {name: torch.from_numpy(v) for name, v in call.inputs.items()}, attentions)
        if not isinstance(outputs, dict):
            outputs = {"output": outputs}
        if call.attentions:
            outputs |= {f"attention.{i}": value for i, value in enumerate(attentions)}
        return {name: np.ascontiguousarray(value.numpy()) for name, value in outputs.items()}

    def variants(self, model, call):
        """Yields the outputs in double precision, first with the same weights, then with a random relative error of
        1e-7 to 1e-6 in each weight."""
        inputs = {name: value.astype(np.float64) if value.dtype == np.float32 else value
                  for name, value in call.inputs.items()}
        exact = {name: value.double() for name, value in model.state_dict().items()}
        double = copy.deepcopy(model).double()
        for noise in [0.0] + [1e-7, 3e-7, 1e-6] * 8:
            double.load_state_dict({name: value * (1 + noise * torch.randn_like(value))
                                    for name, value in exact.items()})
            yield self.call(double, dataclasses.replace(call, inputs=inputs))

    def exported(self, model):
        """Returns the model and the arguments that a user passes to export()."""
        return model, self.kwargs

    def save(self, model, folder):
        export(*self.exported(model), folder, **self.settings)

    def save_unchecked(self, model, folder):
        tensors = dict(model.state_dict())
        for path, module in model.named_modules():
            tensors |= {f"{path}.{name}": getattr(module, name) for name in ("E", "F")
                        if isinstance(getattr(module, name, None), torch.Tensor)}
        save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()},
                  pathlib.Path(folder, "model.safetensors"))
        self.write_config(folder)


class Watched:
    """A context manager: within the with block, each output of the modules is passed to `see`."""

    def __init__(self, modules, see):
        self.modules, self.see = modules, see

    def __enter__(self):
        self.hooks = [m.register_forward_hook(lambda _m, _i, output: self.see(output)) for m in self.modules]

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()
