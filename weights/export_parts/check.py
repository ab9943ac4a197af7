"""Computes a graph of config.json in torch, as linformerd does, and compares the results with the module.

Part of export_module(), which computes and compares each graph before it is written."""

import torch

DTYPES = {"float32": torch.float32, "int64": torch.int64, "int32": torch.int32, "bool": torch.bool}
TOLERANCE = 1e-5  # relative L2 error


def compute(graph, tensors, leaves, inputs):
    """The outputs by name. `leaves`: {prefix of the leaf's tensor names: Leaf}. `inputs`: tensors by name."""
    sizes, values = {}, dict(inputs)
    for one in graph["inputs"]:
        for name, size in zip(one["shape"], inputs[one["name"]].shape):
            if isinstance(name, str) and sizes.setdefault(name, size) != size:
                raise ValueError(f"size {name} has two values, {sizes[name]} and {size}")
    value = Values(values, tensors, sizes)
    with torch.no_grad():
        for node in graph["nodes"]:
            results = compute_node(node, value, leaves)
            if any(result is not None and result.numel() == 0 for result in results):
                raise ValueError(f"the result of {node['op']} is empty")
            names = node["to"] if isinstance(node["to"], list) else [node["to"]]
            values.update((name, result) for name, result in zip(names, results) if name)
    return {name: value(reference) for name, reference in graph["outputs"].items()}


class Values:
    """Maps an argument of a node to its value: a result, a tensor of the file, a size, a dtype or a number."""

    def __init__(self, results, tensors, sizes):
        self.results, self.tensors, self.sizes = results, tensors, sizes

    def __call__(self, argument, key=None):
        if isinstance(argument, list):
            return [self(one) for one in argument]
        if not isinstance(argument, str):
            return argument
        if argument in self.results:
            return self.results[argument]
        if argument[0] == "@":
            tensor = self.tensors[argument[1:]]
            return tensor.float() if tensor.is_floating_point() else tensor
        if argument in DTYPES:
            return DTYPES[argument]
        if argument in ("inf", "-inf", "nan"):
            return float(argument)
        return eval(argument, {"__builtins__": {}}, self.sizes)


# Arguments whose value is a word, and not the name of a result.
WORDS = {"equation", "approximate", "rounding_mode", "mode"}


def compute_node(node, value, leaves):
    op = node["op"]
    if op == "leaf":
        outputs = compute_leaf(leaves[node["path"]], {name: value(one) for name, one in node["inputs"].items()})
        return outputs
    arguments = {key: one if key in WORDS else value(one) for key, one in node.items() if key not in ("op", "to")}
    if op == "to":
        return [arguments["self"].to(arguments["dtype"])]
    if op == "view":  # a view of the values. The tensor need not be contiguous in memory
        return [arguments["self"].reshape(arguments["size"])]
    if op == "batch_norm":
        arguments = {"weight": None, "bias": None, "eps": 1e-5, **arguments, "training": False, "momentum": 0.1,
                     "cudnn_enabled": False}
    if op == "instance_norm":
        arguments = {"weight": None, "bias": None, "running_mean": None, "running_var": None, "eps": 1e-5, **arguments,
                     "use_input_stats": "running_mean" not in arguments, "momentum": 0.1, "cudnn_enabled": False}
    if op.startswith("upsample"):
        return [upsample(op, **arguments)]
    if op == "stft":
        return [torch.view_as_real(torch.ops.aten.stft(**{**arguments, "return_complex": True}))]
    result = getattr(torch.ops.aten, op)(**arguments)
    several = isinstance(node["to"], list)
    return result if several else [result[0]] if isinstance(result, (tuple, list)) else [result]


def upsample(op, input, output_size, scale_factors=None, **more):
    size = output_size if scale_factors is None else None
    return getattr(torch.ops.aten, op).vec(input, size, *more.values(), scale_factors)


def compute_leaf(leaf, inputs):
    # Some libraries write masked values into their inputs, so the inputs are copied.
    outputs = leaf.original(**{name: one.clone() for name, one in inputs.items()})
    return outputs if isinstance(outputs, tuple) else (outputs,)


def difference(found, expected):
    """The largest relative L2 error over the outputs. Infinite when a shape differs. NaN counts as 0. If an expected
    output is 0, its error is absolute."""
    worst = 0.0
    for name, one in expected.items():
        other = found[name]
        if other.shape != one.shape:
            return float("inf")
        one, other = one.double().nan_to_num(), other.double().nan_to_num()
        norm = one.norm().item()
        worst = max(worst, (other - one).norm().item() / (norm if norm > 0 else 1.0))
    return worst
