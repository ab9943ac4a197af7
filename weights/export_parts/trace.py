"""Traces a module with torch.export. Each leaf becomes one operation.

Part of export_module(). While the module is traced, forward() of each leaf is an opaque operation. The trace sees its
inputs and the shapes of its outputs, but not the library's code."""

import contextlib
import functools
import re

import torch
from torch.export import Dim

library = torch.library.Library("linformerd", "FRAGMENT")
library.define("leaf(Tensor[] inputs, str path, str names) -> Tensor[]")
LEAF = torch.ops.linformerd.leaf.default
MAX_DECOMPOSED = 4  # rounds that replace unknown operations by their decompositions
FOUND = {}  # the leaves of the module that is being exported, by the path of their part


def leaf_shapes(inputs, path, names):
    leaf = FOUND[path]
    dtype = next((one.dtype for one in leaf.inner.parameters()), torch.float32)
    shapes = leaf.output_shapes(dict(zip(names.split(), inputs)))
    return [inputs[0].new_empty(shape, dtype=dtype) for shape in shapes]


torch.library.register_fake("linformerd::leaf", leaf_shapes, lib=library)


def opaque_forward(leaf, path):
    """The function that replaces the leaf's forward() during the trace."""

    @functools.wraps(leaf.original)  # torch.export reads the names of the parameters
    def forward(*args, **kwargs):
        inputs = leaf.arguments_of(args, kwargs)
        if inputs is None:  # the daemon's class does not have such a call, so its operations are traced
            return leaf.original(*args, **kwargs)
        return torch.ops.linformerd.leaf(list(inputs.values()), path, " ".join(inputs))[0]

    return forward


@contextlib.contextmanager
def opaque(found):
    """Within the with block, each leaf is one operation, and PyTorch's own layers run operation by operation."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    FOUND.update(found)
    for path, leaf in found.items():
        leaf.part.forward = opaque_forward(leaf, path)
    try:
        yield
    finally:
        for leaf in found.values():
            del leaf.part.forward
        FOUND.clear()
        torch.backends.mha.set_fastpath_enabled(fast)


class Untraceable(Exception):
    """torch.export failed. The message gives the reason and the place."""


def trace(module, found, example, free):
    """The program of torch.export. `free`: pairs of an input's name and a dimension that may be free."""
    shapes = {name: {i: Dim.AUTO for i in range(value.ndim) if (name, i) in free}
              if isinstance(value, torch.Tensor) else None for name, value in example.items()}
    try:
        with torch.no_grad(), opaque(found):
            program = torch.export.export(module, (), example, dynamic_shapes=shapes, strict=False)
            return functional(program)
    except Exception as error:
        raise Untraceable(explain(error)) from error


def functional(program):
    """The program without in-place operations on views, and without blocks such as no_grad()'s. Unknown operations are
    replaced by PyTorch's own decompositions."""
    blocks = any(isinstance(node.target, torch._ops.HigherOrderOperator) for node in program.graph.nodes)
    if blocks or writes_views(program.graph):
        program = program.run_decompositions({})
    for _ in range(MAX_DECOMPOSED):
        table = decompositions(program.graph)
        if not table:
            break
        program = program.run_decompositions(table)
    return program


def decompositions(graph):
    """{operation: its decomposition} for all unknown operations."""
    from .graph import is_known

    missing = {node.target for node in graph.nodes if node.op == "call_function" and node.target is not LEAF
               and isinstance(node.target, torch._ops.OpOverload) and not is_known(node)}
    known = {**torch._decomp.decomposition_table, **own_decompositions()}
    return {op: known[op] for op in missing if op in known}


@functools.lru_cache(maxsize=None)
def own_decompositions():
    table = torch.export.default_decompositions()
    return dict(table.materialize())


ALIASES = {"reshape", "contiguous", "to", "flatten", "unflatten", "expand_as", "type_as", "_to_copy", "movedim"}


def is_written(node):
    """Whether the node is an operation that writes into its first argument."""
    target = node.target
    return (node.op == "call_function" and isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable
            and target._opname.endswith("_") and not target._opname.startswith("detach"))


def writes_views(graph):
    """Whether an operation writes a tensor that is visible under another name: an input, a parameter or a view."""
    shown, order = {}, {node: i for i, node in enumerate(graph.nodes)}  # shown: node -> the node whose memory it shows
    for node in graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload) or not node.args:
            continue
        first = node.args[0]
        if not isinstance(first, torch.fx.Node):
            continue
        if is_written(node):
            base = shown.get(first, first)
            others = [one for one, of in shown.items() if of is base and one is not first]
            if base.op == "placeholder" or not is_fresh(first, shown) or any(
                    order[user] > order[node] for other in others for user in other.users):
                return True
            shown[node] = first
        elif node.target._opname in ALIASES or any(result.alias_info for result in node.target._schema.returns):
            shown[node] = shown.get(first, first)
    return False


def is_fresh(node, shown):
    """Whether the node allocated its memory, or is the result of in-place operations on such a node."""
    while node in shown:
        if not is_written(node):
            return False
        node = node.args[0]
    return True


# ---- Errors ---------------------------------------------------------------------------------------------------------

FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\w+)\n\s+(\S.*)')
FOREIGN = ("/torch/", "/einops/", "/export_parts/", "<frozen")


def place(text):
    """The last line of a stack trace that is in the user's own code, as text."""
    frames = FRAME.findall(text or "")
    own = [frame for frame in frames if not any(part in frame[0] for part in FOREIGN)] or frames
    return "{}, line {}, in {}: {}".format(*own[-1]) if own else "an unknown line"


def explain(error):
    """The message of torch.export's exception, for the author of the module."""
    import traceback

    name, text = type(error).__name__, str(error)
    where = place(text if FRAME.search(text) else "".join(traceback.format_exception(error)))
    if "DataDependent" in name or "data-dependent" in text:
        return f"forward() depends on the values of its inputs, not only on their shapes ({where})"
    line = next((line.strip() for line in text.splitlines() if line.strip()), name)
    return f"{name}: {line:.300} ({where})"
