"""Counts PyTorch's launches, FLOPs and moved bytes in a forward pass of the models of goals.py. Nothing is computed.
The models are traced on the device "meta", whose tensors have only shapes.

Eager PyTorch launches one kernel for each ATen operation that is not a view. The launch reads the operation's inputs
and writes its outputs. torch.compile joins operations. This module assumes that all connected operations between two
products are one launch, which favours torch.compile. Such a launch reads the data that other launches wrote, and writes
the data that other launches read. Each product is a launch, and each call of scaled_dot_product_attention is a
launch."""
import collections

import torch
from torch.fx.experimental.proxy_tensor import make_fx

import plain

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")
ATTENTION = "_scaled_dot_product_flash_attention"


def flash(queries, keys, values):
    """Replaces scaled_dot_product_attention, so that the graph contains one node for each attention."""
    return torch.ops.aten._scaled_dot_product_flash_attention(queries, keys, values)[0]


def graph_of(kwargs, batch, dtype, fused):
    """Returns the traced graph of torch.fx, from the ids to the means of the last hidden states."""
    with torch.device("meta"):
        model = plain.LinformerLM(fused=fused, **kwargs).to(dtype).eval()
        ids = torch.empty(batch, kwargs["seq_len"], dtype=torch.int64)
    usual = plain.functional.scaled_dot_product_attention
    plain.functional.scaled_dot_product_attention = flash
    try:
        with torch.no_grad():
            return make_fx(lambda x: model.hidden(x).mean(1, dtype=torch.float32), tracing_mode="real")(ids).graph
    finally:
        plain.functional.scaled_dot_product_attention = usual


def values_of(node):
    """The tensors that a node computes, without data."""
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    return [v for v in (value if isinstance(value, (tuple, list)) else [value]) if hasattr(v, "shape")]


def bytes_of(node):
    """Returns the bytes of a node's first output. Other outputs are statistics of norms and attention, and not
    counted."""
    value = values_of(node)[0]
    return value.shape.numel() * value.dtype.itemsize


def name_of(node):
    return node.target._schema.name.split("::")[1] if hasattr(node.target, "_schema") else str(node.target)


def is_free(node):
    """Returns whether a node launches nothing, because it is a view, one of several outputs, or no operation."""
    return node.op != "call_function" or name_of(node) in ("expand", "getitem", "detach", "slice", "alias") or \
        "getitem" in str(node.target) or node.target.is_view


def source(node):
    """Returns the node whose output a view shows. If the node is not a view, returns the node itself."""
    while node.op == "call_function" and is_free(node):
        node = node.args[0]
    return node


def flops_of(node):
    """The FLOPs of an attention or a product."""
    shapes = [tuple(values_of(n)[0].shape) for n in node.all_input_nodes]
    if name_of(node) == ATTENTION:
        (b, h, n, d), (_, _, k, _) = shapes[:2]
        return 4 * b * h * n * k * d
    a = shapes[-2]
    return 2 * values_of(node)[0].shape.numel() * a[-1]


def product_of(node):
    """The shape of a product: [batch, rows, columns, depth]."""
    a = tuple(values_of(node.all_input_nodes[-2])[0].shape)
    out = tuple(values_of(node)[0].shape)
    return [out[0] if len(out) == 3 else 1, out[-2], out[-1], a[-1]]


def launch(nodes, inside):
    """Returns the bytes that the launch of `nodes` moves. The launch reads outputs of nodes outside of the set
    `inside`, and writes outputs that nodes outside of the set read."""
    reads = {source(n) for node in nodes for n in node.all_input_nodes} - inside
    writes = {node for node in nodes if any(user not in inside for user in users_of(node))}
    return sum(map(bytes_of, reads)) + sum(map(bytes_of, writes))


def users_of(node):
    """Returns the nodes that read a node's output, directly or through views."""
    found = set()
    for user in node.users:
        found |= users_of(user) if is_free(user) and user.op == "call_function" else {user}
    return found


def extern(node):
    """Returns whether a node is a product or an attention, which torch.compile does not join with other nodes."""
    return name_of(node) in PRODUCTS or name_of(node) == ATTENTION


def levels_of(nodes):
    """Returns {node: level}. The level is the largest number of products and attentions on a path to the node."""
    levels = {}
    for node in nodes:
        levels[node] = max((levels.get(source(n), 0) + (source(n) in levels and extern(source(n)))
                            for n in node.all_input_nodes), default=0)
    return levels


def groups_of(nodes):
    """Returns the sets of connected nodes with the same level, without products and attentions."""
    levels, group = levels_of(nodes), {}
    for node in nodes:
        if extern(node):
            continue
        group[node] = {node}
        for other in {source(n) for n in node.all_input_nodes}:
            if other in group and levels[other] == levels[node] and group[other] is not group[node]:
                group[other] |= group[node]
                for member in group[node]:
                    group[member] = group[other]
    return list({id(members): members for members in group.values()}.values())


def counts(kwargs, batch, dtype, compiled, fused):
    """Returns the launches as [[kind, size, moved bytes, number]]. Equal launches are one entry. The kind is "product",
    "attention" or "other". The size of a product is its shape [batch, rows, columns, depth]. The size of an attention
    is its number of FLOPs. The size of other launches is 0."""
    nodes = [node for node in graph_of(kwargs, batch, dtype, fused).nodes if not is_free(node)]
    found = collections.Counter()
    for node in nodes:
        if extern(node):
            kind = "attention" if name_of(node) == ATTENTION else "product"
            shape = flops_of(node) if kind == "attention" else tuple(product_of(node))
            found[kind, shape, launch([node], {node})] += 1
        elif not compiled:
            found["other", 0, launch([node], {node})] += 1
    for members in groups_of(nodes) if compiled else []:
        found["other", 0, launch(members, members)] += 1
    return [[kind, list(shape) if isinstance(shape, tuple) else shape, moved, times]
            for (kind, shape, moved), times in found.items()]
