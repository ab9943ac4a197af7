"""Writes ATen operations as other operations: as operations of the daemon, or with all sizes written out.

A function in LOWER receives the graph, the torch.fx node, and the node's arguments in the form of config.json. It
returns the reference of the result."""

import math

import torch

from .graph import NUMBER_WORDS, NotFree, dtype_name, free_symbols, name_of, plain_number

LOWER = {}


def lower(*names):
    """Registers a function for these operations."""

    def register(function):
        LOWER.update((name, function) for name in names)
        return function

    return register


def tensor_of(node, index=0):
    return node.args[index].meta["val"]


def check_fixed(sizes, message):
    symbols = free_symbols(sizes)
    if symbols:
        raise NotFree(symbols, message)


def axis(dim, rank):
    return dim % rank if rank else 0


def complex_sizes(value, shape):
    """A complex tensor is stored as a real tensor. Its last dimension has two elements: real part and imaginary
    part."""
    return [*shape, 2] if value.is_complex() else shape


# ---- Shapes ---------------------------------------------------------------------------------------------------------


@lower("view", "reshape", "_unsafe_view", "flatten", "unflatten", "view_as", "reshape_as", "_reshape_alias", "ravel",
       "squeeze_copy")
def lower_view(graph, node, arguments):
    """A view of a view becomes a view of the first source."""
    sizes = complex_sizes(tensor_of(node), graph.shape(node))
    before = complex_sizes(tensor_of(node), graph.shape(node.args[0]))
    source, shape = graph.viewed.get(arguments["self"], (arguments["self"], before))
    if sizes == shape:
        return source
    result = graph.emit("view", {"self": source, "size": sizes})
    graph.viewed[result] = source, shape
    return result


@lower("squeeze")
def lower_squeeze(graph, node, arguments):
    if len(node.meta["val"].shape) == len(tensor_of(node).shape):
        return arguments["self"]
    if isinstance(arguments.get("dim"), int):
        return graph.emit("squeeze", {**arguments, "dim": axis(arguments["dim"], tensor_of(node).ndim)})
    return lower_view(graph, node, arguments)


@lower("unsqueeze")
def lower_unsqueeze(graph, node, arguments):
    return graph.emit("unsqueeze", {**arguments, "dim": axis(arguments["dim"], node.meta["val"].ndim)})


@lower("expand", "expand_as", "broadcast_to")
def lower_expand(graph, node, arguments):
    shape = graph.shape(node)
    if shape == graph.shape(node.args[0]):
        return arguments["self"]
    return graph.emit("expand", {"self": arguments["self"], "size": shape})


@lower("repeat")
def lower_repeat(graph, node, arguments):
    repeats = arguments.get("repeats", arguments.get("dims"))
    repeats = [1] * (node.meta["val"].ndim - len(repeats)) + repeats
    if all(times == 1 for times in repeats) and len(repeats) == tensor_of(node).ndim:
        return arguments["self"]
    return graph.emit("repeat", {"self": arguments["self"], "repeats": repeats})


@lower("repeat_interleave")
def lower_repeat_interleave(graph, node, arguments):
    shape, times = graph.shape(node.args[0]), arguments.get("repeats")
    if not isinstance(times, (int, str)) or "dim" not in arguments:
        graph.refuse(node, "repeat_interleave needs a number of repeats and a dimension")
    dim = axis(arguments["dim"], len(shape))
    each = graph.emit("unsqueeze", {"self": arguments["self"], "dim": dim + 1})
    each = graph.emit("expand", {"self": each, "size": [*shape[: dim + 1], times, *shape[dim + 1 :]]})
    return graph.emit("view", {"self": each, "size": graph.shape(node)})


@lower("permute", "numpy_T", "movedim")
def lower_permute(graph, node, arguments):
    source, rank = tensor_of(node), tensor_of(node).ndim
    if node.target._opname == "numpy_T":
        dims = list(range(rank))[::-1]
    elif "dims" in arguments:
        dims = [axis(dim, rank) for dim in arguments["dims"]]
    else:
        dims = moved(rank, arguments["source"], arguments["destination"])
    if dims == list(range(rank)):
        return arguments["self"]
    return graph.emit("permute", {"self": arguments["self"], "dims": dims + ([rank] if source.is_complex() else [])})


def moved(rank, source, destination):
    source, destination = ([one] if isinstance(one, int) else one for one in (source, destination))
    places = dict(zip([axis(dim, rank) for dim in destination], [axis(dim, rank) for dim in source]))
    left = iter([dim for dim in range(rank) if dim not in places.values()])
    return [places[i] if i in places else next(left) for i in range(rank)]


@lower("transpose", "t", "mT", "adjoint")
def lower_transpose(graph, node, arguments):
    rank, op = tensor_of(node).ndim, node.target._opname
    given = (0, 1) if op in ("t",) else (-2, -1)
    one, other = (axis(arguments.get(name, arguments.get(word, default)), rank)
                  for name, word, default in zip(("dim0", "dim1"), ("axis0", "axis1"), given))
    if rank < 2 or one == other:
        return arguments["self"]
    return graph.emit("transpose", {"self": arguments["self"], "dim0": one, "dim1": other})


@lower("select")
def lower_select(graph, node, arguments):
    return graph.emit("select", {**arguments, "dim": axis(arguments["dim"], tensor_of(node).ndim)})


@lower("slice")
def lower_slice(graph, node, arguments):
    if graph.shape(node) == graph.shape(node.args[0]):
        return arguments["self"]
    dim = axis(arguments.get("dim", 0), tensor_of(node).ndim)
    end = None if arguments.get("end") == 2**63 - 1 else arguments.get("end")
    return graph.emit("slice", {"self": arguments["self"], "dim": dim, "start": arguments.get("start") or None,
                                "end": end, "step": arguments.get("step")})


@lower("narrow")
def lower_narrow(graph, node, arguments):
    start, length = (graph.sizes.text(one.meta["val"] if isinstance(one, torch.fx.Node) else one)
                     for one in node.args[2:4])
    end = start + length if isinstance(start, int) and isinstance(length, int) else f"{start} + {length}"
    return graph.emit("slice", {"self": arguments["self"], "dim": axis(node.args[1], tensor_of(node).ndim),
                                "start": start, "end": end})


@lower("cat")
def lower_cat(graph, node, arguments):
    tensors = arguments["tensors"]
    dim = axis(arguments.get("dim", 0), node.meta["val"].ndim)
    return tensors[0] if len(tensors) == 1 else graph.emit("cat", {"tensors": tensors, "dim": dim})


@lower("stack")
def lower_stack(graph, node, arguments):
    return graph.emit("stack", {**arguments, "dim": axis(arguments.get("dim", 0), node.meta["val"].ndim)})


@lower("select_scatter", "slice_scatter")
def lower_scatter(graph, node, arguments):
    """Writing into a part of a tensor means joining the rows before the part, the part, and the rows after it."""
    shape, source, dim = graph.shape(node), arguments["src"], axis(arguments.get("dim", 0), node.meta["val"].ndim)
    size = shape[dim]
    if "index" in arguments:
        start = from_front(arguments["index"], size)
        end = start + 1 if isinstance(start, int) else size
        source = graph.emit("unsqueeze", {"self": source, "dim": dim})
    else:
        start, end = (from_front(arguments.get(key, whole), size) for key, whole in (("start", 0), ("end", size)))
    if arguments.get("step", 1) != 1:
        graph.refuse(node, "an assignment to a slice with a step is not supported")
    whole = end == size or end == 2**63 - 1
    if start == 0 and whole:
        return source
    before = [] if start == 0 else [graph.emit("slice", {"self": arguments["self"], "dim": dim, "end": start})]
    after = [] if whole else [graph.emit("slice", {"self": arguments["self"], "dim": dim, "start": end})]
    return graph.emit("cat", {"tensors": [*before, source, *after], "dim": dim})


def from_front(place, size):
    """The index of a row, counted from the first row."""
    if not isinstance(place, int) or place >= 0:
        return min(place, size) if isinstance(place, int) and isinstance(size, int) else place
    return max(0, place + size) if isinstance(size, int) else f"{size} - {-place}"


@lower("copy")
def lower_copy(graph, node, arguments):
    source = arguments["src"]
    if graph.shape(node) != graph.shape(node.args[1]):
        source = graph.emit("expand", {"self": source, "size": graph.shape(node)})
    one, other = (tensor_of(node, i).dtype for i in (0, 1))
    return source if one == other or one.is_floating_point and other.is_floating_point else \
        graph.emit("to", {"self": source, "dtype": dtype_name(one)})


@lower("unfold")
def lower_unfold(graph, node, arguments):
    """Windows along one dimension. The elements of a window become a new last dimension. index_select selects the rows,
    and a view separates the windows."""
    shape, (dim, size, step) = graph.shape(node.args[0]), node.args[1:4]
    rank, dim = len(shape), axis(dim, len(shape))
    check_fixed([tensor_of(node).shape[dim]], "windows over a free size are not supported")
    starts = torch.arange(0, shape[dim] - size + 1, step)
    index = (starts[:, None] + torch.arange(size)).reshape(-1)
    rows = graph.emit("index_select", {"self": arguments["self"], "dim": dim, "index": made(graph, node, index)})
    rows = graph.emit("view", {"self": rows, "size": [*shape[:dim], len(starts), size, *shape[dim + 1 :]]})
    order = [i for i in range(rank + 1) if i != dim + 1] + [dim + 1]
    return rows if order == sorted(order) else graph.emit("permute", {"self": rows, "dims": order})


def made(graph, node, value):
    """A tensor that is added to the file for a node."""
    name = f"constant.{node.name}"
    graph.made[name] = value
    return f"@{name}"


# ---- Rows by their index --------------------------------------------------------------------------------------------


@lower("index", "_unsafe_index")
def lower_index(graph, node, arguments):
    indices = node.args[1]
    given = [(dim, one) for dim, one in enumerate(indices) if one is not None]
    source = tensor_of(node)
    if any(one.meta["val"].dtype in (torch.bool, torch.uint8) for _, one in given):
        graph.refuse(node, "forward() selects by a mask: the shape of the result depends on values")
    if len(given) == 1:
        return rows_of(graph, node, arguments["self"], *given[0])
    dims = [dim for dim, _ in given]
    fixed = all(one in graph.constants for _, one in given) and dims == list(range(dims[0], dims[0] + len(dims)))
    if not fixed:
        graph.refuse(node, "indices along several dimensions are supported only if they are constants, and the "
                     "dimensions are adjacent")
    check_fixed([source.shape[dim] for dim in dims],
                "indices along several dimensions of a free size are not supported")
    flat = torch.zeros((), dtype=torch.int64)
    for dim, one in given:
        index = graph.constants[one]
        flat = flat * source.shape[dim] + torch.where(index < 0, index + source.shape[dim], index)
    shape = graph.shape(node.args[0])
    whole = math.prod(shape[dim] for dim in dims)
    joined = graph.emit("view", {"self": arguments["self"],
                                 "size": [*shape[: dims[0]], whole, *shape[dims[-1] + 1 :]]})
    rows = graph.emit("index_select", {"self": joined, "dim": dims[0], "index": made(graph, node, flat.reshape(-1))})
    return rows if flat.ndim == 1 else graph.emit("view", {"self": rows, "size": graph.shape(node)})


def rows_of(graph, node, source, dim, index):
    """Rows along one dimension. The index may have any rank."""
    rank = tensor_of(node).ndim
    if index in graph.constants:
        value = graph.constants[index]
        size = tensor_of(node).shape[dim]
        if bool((value < 0).any()) and isinstance(size, int):
            value = torch.where(value < 0, value + size, value)
        if bool((value < 0).any()):
            graph.refuse(node, "an index that counts from the end of a free dimension is not supported")
        rows = graph.emit("index_select", {"self": source, "dim": dim, "index": made(graph, node, value.reshape(-1))})
        return rows if value.ndim == 1 else graph.emit("view", {"self": rows, "size": graph.shape(node)})
    if dim == 0 and rank == 2 and source[0] == "@":
        return graph.emit("embedding", {"weight": source, "indices": graph.reference(index)})
    return graph.refuse(node, "a computed index can only select rows of a table of two dimensions")


@lower("index_select")
def lower_index_select(graph, node, arguments):
    return rows_of(graph, node, arguments["self"], axis(node.args[1], tensor_of(node).ndim), node.args[2])


@lower("one_hot")
def lower_one_hot(graph, node, arguments):
    classes = torch.arange(node.meta["val"].shape[-1])
    column = graph.emit("unsqueeze", {"self": arguments["self"], "dim": tensor_of(node).ndim})
    equal = graph.emit("eq", {"self": column, "other": made(graph, node, classes)})
    return graph.emit("to", {"self": equal, "dtype": "int64"})


# ---- Types ----------------------------------------------------------------------------------------------------------


@lower("to", "_to_copy", "type_as", "to_dense", "convert_element_type")
def lower_to(graph, node, arguments):
    source, target = tensor_of(node).dtype, node.meta["val"].dtype
    if source == target or source.is_floating_point and target.is_floating_point:
        return graph.reference(node.args[0])
    return graph.emit("to", {"self": graph.reference(node.args[0]), "dtype": dtype_name(target)})


@lower("softmax", "log_softmax")
def lower_softmax(graph, node, arguments):
    rank = node.meta["val"].ndim
    return graph.emit(node.target._opname.lstrip("_"), {"self": arguments["self"], "dim": axis(arguments["dim"], rank)})


@lower("sum", "mean", "prod", "cumsum")
def lower_sum(graph, node, arguments):
    """A dtype of floats has no effect on floats, because the daemon computes in float32."""
    if arguments.get("dtype") == "float32" and tensor_of(node).is_floating_point():
        del arguments["dtype"]
    return graph.emit(node.target._opname, {**arguments, "dim": dims_of(node, arguments.get("dim"))})


def dims_of(node, dim):
    """Dimensions, counted from the first one."""
    rank = tensor_of(node).ndim
    return dim if dim is None else axis(dim, rank) if isinstance(dim, int) else [axis(one, rank) for one in dim]


@lower("amax", "amin", "any", "all", "argmax")
def lower_extreme(graph, node, arguments):
    return graph.emit(node.target._opname, {**arguments, "dim": dims_of(node, arguments.get("dim"))})


# ---- Arithmetic -----------------------------------------------------------------------------------------------------


@lower("matmul", "mm", "bmm", "dot", "mv")
def lower_matmul(graph, node, arguments):
    shapes = [graph.shape(one) for one in node.args[:2]]
    names = [graph.reference(one) for one in node.args[:2]]
    ranks = [len(shape) for shape in shapes]
    if ranks == [2, 2]:
        return graph.emit("mm", {"self": names[0], "mat2": names[1]})
    if ranks == [3, 3] and shapes[0][0] == shapes[1][0]:
        return graph.emit("bmm", {"self": names[0], "mat2": names[1]})
    return graph.emit("matmul", {"self": names[0], "other": names[1]})


@lower("einsum")
def lower_einsum(graph, node, arguments):
    equation = node.args[0].replace(" ", "")
    if "." in equation:
        graph.refuse(node, f'einsum "{equation}": expected letters in place of "..."')
    if "->" not in equation:
        letters = equation.replace(",", "")
        equation += "->" + "".join(sorted(one for one in set(letters) if letters.count(one) == 1))
    return graph.emit("einsum", {"equation": equation, "tensors": arguments["tensors"]})


@lower("max", "min")
def lower_max(graph, node, arguments):
    """Three forms of max: the larger of two tensors, the largest of all elements, or values and indices along one
    dimension. min has the same forms, but without indices."""
    op, overload = node.target._opname, node.target._overloadname
    if overload == "other":
        return graph.emit({"max": "maximum", "min": "minimum"}[op], arguments)
    if "dim" not in arguments:
        return graph.emit(f"a{op}", {"self": arguments["self"], "dim": list(range(tensor_of(node).ndim))})
    arguments["dim"] = dims_of(node, arguments["dim"])
    values = graph.emit(f"a{op}", {**arguments, "dim": [arguments["dim"]]})
    read = {user.args[1] for user in node.users if user.users}
    return [values, graph.emit("argmax", arguments) if 1 in read and op == "max" else None]


@lower("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d")
def lower_adaptive_pool(graph, node, arguments):
    """The second result of a max pooling, the places of the largest elements, is not available."""
    before, results = tensor_of(node).shape, node.meta["val"]
    after = (results[0] if isinstance(results, tuple) else results).shape
    pooled = [pair for old, new in list(zip(before, after))[-len(arguments["output_size"]):] if not is_one(new)
              for pair in (old, new)]
    check_fixed(pooled, "windows that depend on a free size are not supported")
    if isinstance(results, tuple) and any(old % new for old, new in zip(pooled[::2], pooled[1::2])):
        graph.refuse(node, f"{node.target._opname} with windows of unequal sizes is not supported")
    result = graph.emit(node.target._opname, arguments)
    return [result, None] if isinstance(results, tuple) else result


def is_one(size):
    return isinstance(size, int) and size == 1


@lower("clamp", "clamp_min", "clamp_max")
def lower_clamp(graph, node, arguments):
    """The bounds of the daemon's clamp are numbers. A bound that is a tensor or a size becomes the operand of a maximum
    or minimum."""
    result = arguments["self"]
    bounds = {name: bound_of(graph, node, name, arguments.get(name)) for name in ("min", "max") if name in arguments}
    if not any(isinstance(bound, str) and bound not in NUMBER_WORDS for bound in bounds.values()):
        return graph.emit(name_of(node), {"self": result, **bounds})
    for name, bound in bounds.items():
        if isinstance(bound, str) and bound not in NUMBER_WORDS:
            op, word = {"min": "maximum", "max": "minimum"}[name], "other"
        else:
            op, word = f"clamp_{name}", name
        result = graph.emit(op, {"self": result, word: bound})
    return result


def bound_of(graph, node, name, bound):
    """The bound as a number, or the reference of a tensor."""
    given = graph.given(node, name) if bound is not None else None
    value = graph.constants.get(given) if isinstance(given, torch.fx.Node) else None
    if value is not None and value.numel() == 1 and value.ndim <= tensor_of(node).ndim:
        return plain_number(value.item())
    if isinstance(bound, str) and bound not in NUMBER_WORDS and graph.sizes.is_size(bound):
        return graph.emit("scalar_tensor", {"s": bound})
    return bound


@lower("std", "var")
def lower_std(graph, node, arguments):
    unbiased = arguments.pop("unbiased", None)
    if unbiased is not None or node.target._overloadname in ("dim", "") and False in node.args:
        arguments["correction"] = int(bool(unbiased))
    dim = dims_of(node, arguments.get("dim"))
    return graph.emit(node.target._opname, {**arguments, "dim": list(range(tensor_of(node).ndim)) if not dim else dim})


@lower("norm", "frobenius_norm", "linalg_vector_norm", "linalg_norm")
def lower_norm(graph, node, arguments):
    power = arguments.get("ord", arguments.get("p", 2))
    if not isinstance(power, (int, float)) and power not in ("inf", "-inf"):
        graph.refuse(node, f"a norm of order {power} is not supported")
    dim = dims_of(node, arguments.get("dim"))
    dim = list(range(tensor_of(node).ndim)) if dim in (None, []) else [dim] if isinstance(dim, int) else dim
    return graph.emit("linalg_vector_norm", {"self": arguments["self"], "ord": None if power == 2 else power, "dim": dim,
                                             "keepdim": arguments.get("keepdim")})


@lower("remainder")
def lower_remainder(graph, node, arguments):
    pair = {"self": arguments["self"], "other": arguments["other"]}
    whole = graph.emit("mul", {"self": graph.emit("div", {**pair, "rounding_mode": "floor"}), "other": pair["other"]})
    return graph.emit("sub", {"self": pair["self"], "other": whole})


@lower("floor_divide")
def lower_floor_divide(graph, node, arguments):
    return graph.emit("div", {"self": arguments["self"], "other": arguments["other"], "rounding_mode": "floor"})


@lower("tril", "triu")
def lower_tril(graph, node, arguments):
    sizes = tensor_of(node).shape[-2:]
    check_fixed(sizes, "a triangle of a free size is not supported")
    ones = torch.ones([int(size) for size in sizes])
    kept = getattr(torch, node.target._opname)(ones, arguments.get("diagonal", 0)).bool()
    return graph.emit("where", {"condition": made(graph, node, kept), "self": arguments["self"], "other": 0.0})


@lower("fill", "new_full", "full_like")
def lower_fill(graph, node, arguments):
    return filled(graph, node, arguments.get("value", arguments.get("fill_value")))


@lower("zero", "new_zeros", "zeros_like", "zeros")
def lower_zeros(graph, node, arguments):
    return filled(graph, node, 0)


@lower("new_ones", "ones_like", "ones")
def lower_ones(graph, node, arguments):
    return filled(graph, node, 1)


@lower("empty", "new_empty", "empty_like", "empty_strided", "empty_permuted")
def lower_empty(graph, node, arguments):
    return filled(graph, node, 0)


@lower("full")
def lower_full(graph, node, arguments):
    return filled(graph, node, arguments["fill_value"])


def filled(graph, node, value):
    """A tensor that is filled with one number. If the number is a size or a tensor of one element, it is expanded."""
    if isinstance(value, str) and value not in NUMBER_WORDS:
        if graph.sizes.is_size(value):
            value = graph.emit("scalar_tensor", {"s": value})
        return graph.emit("expand", {"self": value, "size": graph.shape(node)})
    return graph.emit("full", {"size": graph.shape(node), "fill_value": plain_number(value),
                               "dtype": dtype_name(node.meta["val"].dtype)})


@lower("arange")
def lower_arange(graph, node, arguments):
    dtype = dtype_name(node.meta["val"].dtype)
    return graph.emit("arange", {**arguments, "dtype": None if dtype == "int64" else dtype})


# ---- Layers ---------------------------------------------------------------------------------------------------------


@lower("batch_norm")
def lower_batch_norm(graph, node, arguments):
    if node.args[5]:
        graph.refuse(node, "batch_norm normalises by its own batch although the module is in eval mode: it has "
                           "track_running_stats=False or is called with training=True")
    return graph.emit("batch_norm", arguments)


@lower("_native_batch_norm_legit_no_training")
def lower_native_batch_norm(graph, node, arguments):
    return [graph.emit("batch_norm", {**arguments, "eps": node.args[6]}), None, None]


@lower("_native_batch_norm_legit", "_native_batch_norm_legit_functional", "native_batch_norm")
def lower_training_norm(graph, node, arguments):
    graph.refuse(node, "batch_norm normalises by its own batch although the module is in eval mode")


@lower("instance_norm")
def lower_instance_norm(graph, node, arguments):
    if node.args[5]:
        return graph.emit("instance_norm", {**arguments, "running_mean": None, "running_var": None})
    return graph.emit("batch_norm", arguments)


@lower("native_layer_norm")
def lower_native_layer_norm(graph, node, arguments):
    return [graph.emit("layer_norm", {**arguments, "eps": None if node.args[4] == 1e-5 else node.args[4]}), None, None]


@lower("native_group_norm")
def lower_native_group_norm(graph, node, arguments):
    return [graph.emit("group_norm", {"input": arguments["input"], "num_groups": node.args[6], "eps": node.args[7],
                                      "weight": arguments.get("weight"), "bias": arguments.get("bias")}), None, None]


@lower("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d")
def lower_convolution(graph, node, arguments):
    op, weight = node.target._opname, tensor_of(node, 1)
    padding, space = arguments.get("padding"), weight.ndim - 2
    if "valid" in (padding, [padding]):
        del arguments["padding"]
    elif padding == "same":
        dilation = (arguments.get("dilation") or [1]) * space
        around = [dilation[i] * (weight.shape[2 + i] - 1) for i in range(space)]
        arguments["padding"] = [size // 2 for size in around]
        if any(size % 2 for size in around):  # one more zero after the end than before the beginning
            pad = [end for size in reversed(around) for end in (0, size % 2)]
            arguments["input"] = graph.emit("pad", {"self": arguments["input"], "pad": pad})
        if not any(arguments["padding"]):
            del arguments["padding"]
    return graph.emit(op, arguments)


@lower("scaled_dot_product_attention")
def lower_attention(graph, node, arguments):
    dropout = node.args[4] if len(node.args) > 4 else node.kwargs.get("dropout_p", 0)
    if dropout:
        graph.refuse(node, "scaled_dot_product_attention has a dropout_p although the module is in eval mode")
    return graph.emit("scaled_dot_product_attention", arguments)


@lower("pad", "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d")
def lower_pad(graph, node, arguments):
    name = node.target._opname
    mode = arguments.get("mode", "reflect" if "reflection" in name else "replicate" if "replication" in name else None)
    if mode == "circular":
        graph.refuse(node, 'pad with mode "circular" is not supported')
    pad = arguments.get("pad", arguments.get("padding"))
    if not any(pad):
        return arguments["self"]
    value = arguments.get("value") or None
    return graph.emit("pad", {"self": arguments["self"], "pad": pad, "mode": mode, "value": value})


@lower("upsample_nearest1d", "upsample_nearest2d", "upsample_linear1d", "upsample_bilinear2d")
def lower_upsample(graph, node, arguments):
    """Keeps scale_factors if they differ from the quotients of the sizes."""
    op, name, sizes = node.target._opname, arguments["input"], graph.shape(node)[2:]
    scales = arguments.get("scale_factors")
    aligned = arguments.get("align_corners")
    before = graph.shape(node.args[0])[2:]
    exact = scales is None or all(isinstance(new, str) or new == old * scale
                                  for new, old, scale in zip(sizes, before, scales))
    if "linear" in op:
        check_fixed([*tensor_of(node).shape[2:], *node.meta["val"].shape[2:]],
                    "an interpolation of a free size is not supported")
    if op == "upsample_linear1d":
        name = graph.emit("unsqueeze", {"self": name, "dim": 2})
        sizes, scales = [1, *sizes], scales and [1.0, *scales]
    result = graph.emit(op.replace("linear1d", "bilinear2d") if op == "upsample_linear1d" else op,
                        {"input": name, "output_size": sizes, "align_corners": aligned if op[9] != "n" else None,
                         "scale_factors": None if exact else scales})
    return graph.emit("squeeze", {"self": result, "dim": 2}) if op == "upsample_linear1d" else result


# ---- Complex numbers: the last dimension has real part and imaginary part -------------------------------------------


@lower("stft")
def lower_stft(graph, node, arguments):
    if "return_complex" in arguments:
        arguments["return_complex"] = False
    return graph.emit("stft", arguments)


@lower("abs")
def lower_abs(graph, node, arguments):
    source = tensor_of(node)
    if not source.is_complex():
        return graph.emit("abs", arguments)
    return graph.emit("linalg_vector_norm", {"self": arguments["self"], "dim": [source.ndim]})


@lower("view_as_real")
def lower_view_as_real(graph, node, arguments):
    return arguments["self"]


@lower("real", "imag")
def lower_part(graph, node, arguments):
    source = tensor_of(node)
    if not source.is_complex():
        return arguments["self"]
    index = int(node.target._opname == "imag")
    return graph.emit("select", {"self": arguments["self"], "dim": source.ndim, "index": index})


# ---- Numbers that are computed from sizes ---------------------------------------------------------------------------


def scalar(graph, e):
    """A real number that is computed from sizes: a number, or the reference of a tensor of one element."""
    kind = type(e).__name__
    if e.is_number:
        return float(e)
    if e.is_integer and kind not in ("Pow", "PowByNatural"):
        return graph.emit("scalar_tensor", {"s": graph.sizes.text(e)})
    if kind == "ToFloat":
        return scalar(graph, e.args[0])
    parts = [scalar(graph, one) for one in e.args]
    if kind in ("Add", "Mul"):
        return joined(graph, kind.lower(), parts)
    if kind in ("Pow", "FloatPow", "PowByNatural") and isinstance(parts[1], float):
        return graph.emit("pow", {"self": parts[0], "exponent": parts[1]})
    if kind in ("FloatTrueDiv", "IntTrueDiv"):
        if isinstance(parts[0], float):
            return joined(graph, "mul", [graph.emit("reciprocal", {"self": parts[1]}), parts[0]])
        return graph.emit("div", {"self": parts[0], "other": parts[1]})
    for word in ("sqrt", "log", "exp"):
        if kind.lower() in (word, f"opaqueunaryfn_{word}"):
            return graph.emit(word, {"self": parts[0]})
    raise NotFree(e.free_symbols, f"the number {e} of the sizes is not supported")


def joined(graph, op, parts):
    tensors = [one for one in parts if isinstance(one, str)]
    numbers = [one for one in parts if not isinstance(one, str)]
    result = tensors[0]
    for one in [*tensors[1:], *numbers]:
        result = graph.emit(op, {"self": result, "other": one})
    return result
