"""export_module(): calls the other parts.

The module is traced in float32 on the CPU. If it has another dtype or device, a copy is traced. The tensors in the file
keep their dtype."""

import contextlib
import copy
import inspect
import json
import os
import pathlib
import shutil

import torch

from . import exporter, refuse, sizes
from .leaves import PADDERS, find_leaves

RESERVED = ("architecture", "graph", "kwargs", "padding")


def export_module(module, example, folder, *, arguments=None, daemon=None, **config):
    config, tokenizer = exporter.take_tokenizer(config)
    module, config = unwrapped(module), check_keys(config)
    with eval_mode(module):
        plain = plain_module(module)
        example = check_example(plain, example)
        found = find_leaves(plain, arguments)
        graph, described = sizes.find(plain, found, example)
    check_labels(config.get("labels"), graph)
    check_causal(config.get("causal", False), plain, example)
    tensors = tensors_of(module, graph, described["nodes"], found)
    exporter.check_vocabulary(tokenizer or config.get("tokenizer"), vocabulary_of(described, tensors))
    text = config_text({"architecture": "module", **config}, described)
    if daemon is None:
        daemon = os.environ.get("LINFORMERD") or shutil.which("linformerd") or False
    exporter.write_folder(pathlib.Path(folder), text, tensors, daemon, exporter.ALL_DTYPES, tokenizer)


# ---- What comes in --------------------------------------------------------------------------------------------------


def unwrapped(module):
    """The module inside DataParallel and similar wrappers. The padders stay, because they belong to leaves."""
    while type(module).__name__ in exporter.WRAPPERS and type(module).__name__ not in PADDERS:
        module = getattr(module, exporter.WRAPPERS[type(module).__name__][0])
    if not isinstance(module, torch.nn.Module):
        refuse(f"export_module: expected a torch.nn.Module, found {type(module).__name__}")
    return module


def plain_module(module):
    """The module in float32 on the CPU, copied if necessary."""
    dtypes = (torch.float32, torch.int64, torch.int32, torch.bool)
    tensors = [*module.parameters(), *module.buffers()]
    if all(one.device.type == "cpu" and one.dtype in dtypes for one in tensors):
        return module
    return copy.deepcopy(module).cpu().float()


@contextlib.contextmanager
def eval_mode(module):
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def check_keys(config):
    for key in RESERVED:
        if key in config:
            refuse(f'"{key}" is not accepted by export_module(): this key is for a model that is one class')
    return {key: exporter.plain(value, key) for key, value in config.items()}


def check_example(module, example):
    """The example in the order of forward()'s parameters, on the CPU. Floats become float32."""
    if not isinstance(example, dict) or not any(isinstance(one, torch.Tensor) for one in example.values()):
        refuse("example: expected a dict of tensors by the names of forward()'s parameters")
    parameters = inspect.signature(module.forward).parameters
    free = any(one.kind == one.VAR_KEYWORD for one in parameters.values())
    for name, value in example.items():
        if name not in parameters and not free:
            refuse(f'example: forward() has no parameter "{name}"; it has {", ".join(parameters)}')
        if isinstance(value, torch.Tensor) and (value.ndim < 1 or value.shape[0] < 2):
            refuse(f'example: "{name}" has shape {list(value.shape)}; its first dimension must be a batch of at least 2')
        if isinstance(value, torch.Tensor) and (value.is_complex() or value.ndim > 5):
            refuse(f'example: "{name}" must be real and have at most 5 dimensions')
    batches = {name: value.shape[0] for name, value in example.items() if isinstance(value, torch.Tensor)}
    if len(set(batches.values())) > 1:
        refuse(f"example: the batches differ: {batches}")
    order = [name for name in parameters if name in example] + [name for name in example if name not in parameters]
    return {name: on_cpu(example[name]) for name in order}


def on_cpu(value):
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    if value.is_floating_point():
        return value.float()
    return value if value.dtype in (torch.int64, torch.int32, torch.bool) else value.long()


def check_labels(labels, graph):
    if labels is None:
        return
    if not isinstance(labels, list) or not all(isinstance(one, str) for one in labels):
        refuse(f"labels: expected a list of strings, found {labels!r:.80}")
    shapes = list(graph.output_shapes.values())
    if len(shapes) == 1 and len(shapes[0]) == 2 and isinstance(shapes[0][1], int) and shapes[0][1] != len(labels):
        refuse(f"labels: expected {shapes[0][1]} strings, one for each class, found {len(labels)}")


def check_causal(causal, module, example):
    """Refuses `causal` if earlier rows of the module's output change with the last id."""
    if not isinstance(causal, bool):
        refuse(f"causal: expected true or false, found {causal!r:.80}")
    name = next(iter(example))
    if not causal:
        return
    if example[name].is_floating_point() or example[name].ndim != 2 or example[name].shape[1] < 2:
        refuse(f'causal: expected a first input of at least 2 ids (batch, n), found "{name}" {list(example[name].shape)}')
    with eval_mode(module), torch.no_grad():
        changed = example[name].clone()
        first, last = changed[:, 0], changed[:, -1]
        changed[:, -1] = torch.where(first != last, first, torch.where(first > 0, first - 1, first + 1))
        found = [module(**{**example, name: ids}) for ids in (example[name], changed)]
    if not isinstance(found[0], torch.Tensor) or found[0].ndim != 3:
        refuse("causal: expected one output (batch, n, vocabulary)")
    before, after = (one[:, :-1].float() for one in found)
    if not torch.allclose(before, after, rtol=1e-4, atol=1e-5):
        refuse("causal: a row of the output changes with a later id, so the module is not causal")


def vocabulary_of(described, tensors):
    """The number of ids that the first input may contain, according to the nodes that read this input. 0: the first
    input has no ids. None: no node limits it."""
    first = described["inputs"][0]
    if first["dtype"] not in ("int64", "int32"):
        return 0
    limits = []
    for node in described["nodes"]:
        if node["op"] == "embedding" and node["indices"] == first["name"] and node["weight"][:1] == "@":
            limits.append(tensors[node["weight"][1:]].shape[0])
        elif node["op"] == "leaf" and first["name"] in node["inputs"].values():
            kwargs = node["kwargs"]
            limits += [kwargs[key] for key in ("num_tokens", "enc_num_tokens") if key in kwargs]
    return min(limits, default=None)


# ---- What goes out --------------------------------------------------------------------------------------------------


def tensors_of(module, graph, nodes, found):
    """The tensors that the nodes read. First come those of the module's state_dict(), in its order and with its names,
    then constants."""
    from .graph import words_in

    read = {word[1:] for node in nodes for key, value in node.items() if key not in ("op", "to", "kwargs")
            for word in words_in(value) if word[:1] == "@"}
    everything = dict(module.named_parameters(remove_duplicate=False))
    everything.update(module.named_buffers(remove_duplicate=False))
    order = [name for name in module.state_dict() if name in everything]
    everything = {**{name: everything[name] for name in order}, **everything, **graph.program.constants, **graph.made}
    used = {node["path"] for node in nodes if node["op"] == "leaf"}
    of_leaves = {}
    for path, part in ((leaf.path, submodule(module, leaf.path)) for leaf in found.values() if leaf.path in used):
        of_leaves.update({f"{path}.{name}".lstrip("."): value for name, value in exporter.torch_tensors(part).items()})
    kept = {id(value) for name, value in everything.items() if name in read}  # keeps all names of a tied tensor
    return {**{name: value for name, value in everything.items() if id(value) in kept or name in of_leaves}, **of_leaves}


def submodule(module, path):
    return module.get_submodule(path)


def config_text(config, graph):
    """JSON for people: one line for each node."""
    lines = [f' "{key}": {json.dumps(value, allow_nan=False, ensure_ascii=False)}' for key, value in config.items()]
    blocks = []
    for key, value in graph.items():
        one = lambda item: json.dumps(item, allow_nan=False)
        if isinstance(value, list):
            text = "[\n" + ",\n".join(f"   {one(item)}" for item in value) + "\n  ]"
        else:
            text = one(value)
        blocks.append(f'  "{key}": {text}')
    lines.append(' "graph": {\n' + ",\n".join(blocks) + "\n }")
    return "{\n" + ",\n".join(lines) + "\n}\n"
