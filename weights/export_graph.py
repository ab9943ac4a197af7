"""A module that somebody wrote around the libraries' classes, as the graph that linformerd reads.

export_module() of export.py uses this file. torch.export traces the module. During the trace each part that is one of
the libraries' classes is one opaque operation, a *leaf*: the daemon computes it whole. The nodes between the leaves are
ATen operations; `Translation` writes them as config.json has them."""

import contextlib
import inspect
import math
import operator
import traceback

import sympy
import torch
from torch.export import Dim

import export_leaves as leaves
from export import refuse

# The operations that the daemon has, by their ATen names. True: the operation is elementwise and may take scalars.
OPERATIONS = set("""
    add sub rsub mul div pow maximum minimum eq ne lt le gt ge logical_and logical_or logical_xor logical_not bitwise_not
    bitwise_and bitwise_or where masked_fill neg abs sqrt rsqrt square reciprocal exp expm1 log log1p sin cos tanh sigmoid
    relu relu6 leaky_relu elu selu gelu silu mish softplus hardtanh hardswish hardsigmoid log_sigmoid erf floor ceil round
    sign clamp clamp_min clamp_max isnan to glu prelu
    embedding linear layer_norm rms_norm batch_norm group_norm instance_norm conv1d conv2d conv_transpose1d
    conv_transpose2d scaled_dot_product_attention softmax log_softmax max_pool1d max_pool2d avg_pool1d avg_pool2d
    adaptive_avg_pool1d adaptive_avg_pool2d
    bmm mm baddbmm addmm einsum
    mean sum std var amax amin max min all any prod linalg_vector_norm norm argmax cumsum
    view reshape flatten unflatten squeeze unsqueeze permute transpose t movedim expand expand_as repeat cat stack chunk
    split split_with_sizes unbind select slice index_select flip roll pad pixel_shuffle
    arange zeros ones full zeros_like ones_like full_like scalar_tensor
    upsample_nearest2d upsample_nearest1d upsample_bilinear2d stft
""".split())

LAST = 2**63 - 1  # the end of a slice that has none
INPUT_DTYPES = {torch.int64: "int64", torch.int32: "int32", torch.bool: "bool"}


# ---- Leaves as opaque operations ------------------------------------------------------------------------------------

library = torch.library.Library("linformerd", "FRAGMENT")
library.define("leaf(Tensor[] inputs, str path, str names) -> Tensor[]")
CALLED = {}  # path -> Leaf, of the module that is being traced


def bound(inputs, path, names):
    return CALLED[path], dict(zip(names.split(), inputs))


def leaf_shapes(inputs, path, names):
    leaf, inputs = bound(inputs, path, names)
    return leaf.empty_outputs(inputs)


def leaf_compute(inputs, path, names):
    leaf, inputs = bound(inputs, path, names)
    outputs = leaf.original(**{name: value.clone() for name, value in inputs.items()})
    return [value for value in (outputs if isinstance(outputs, tuple) else (outputs,)) if value is not None]


torch.library.register_fake("linformerd::leaf", leaf_shapes, lib=library)
library.impl("leaf", leaf_compute, "CompositeExplicitAutograd")


class Leaf:
    """A part of the module that is one of the libraries' classes."""

    def __init__(self, path, part, architecture):
        self.path, self.part, self.architecture = path, part, architecture
        self.names, self.original = leaves.INPUTS[architecture], part.forward
        self.signature = inspect.signature(part.forward)
        self.kwargs = leaves.INFER[architecture](part)

    def empty_outputs(self, inputs):
        x = next(iter(inputs.values()))
        dtype = next((one.dtype for one in self.part.parameters() if one.is_floating_point()), torch.float32)
        return [x.new_empty(shape, dtype=dtype) for shape in leaves.output_shapes(self.architecture, self.part, inputs)]

    def call(self, *args, **kwargs):
        """Stands for forward() during the trace."""
        values = {name: value for name, value in self.given(args, kwargs).items() if value is not None}
        if set(values) - set(self.names) or not all(isinstance(value, torch.Tensor) for value in values.values()):
            return self.original(*args, **kwargs)  # more than the class's tensors: traced as plain operations
        values = {name: values[name] for name in self.names if name in values}
        outputs = torch.ops.linformerd.leaf(list(values.values()), self.path, " ".join(values))
        return outputs[0] if self.architecture != leaves.KUIXU else (*outputs, None)[:2]

    def given(self, args, kwargs):
        arguments = self.signature.bind(*args, **kwargs).arguments
        for name, parameter in self.signature.parameters.items():
            if parameter.kind == parameter.VAR_KEYWORD:
                arguments.update(arguments.pop(name, {}))
        return arguments


@contextlib.contextmanager
def opaque(found):
    """Within the block, each leaf's forward() is one operation."""
    for leaf in found.values():
        leaf.part.forward = leaf.call
    CALLED.update(found)
    fast, _ = torch.backends.mha.get_fastpath_enabled(), torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        CALLED.clear()
        for leaf in found.values():
            del leaf.part.forward


@contextlib.contextmanager
def in_eval_mode(module):
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


# ---- Tracing --------------------------------------------------------------------------------------------------------


def trace(module, example, free):
    """torch.export's program, without in-place operations. `free`: (input, dimension) pairs."""
    shapes = {name: {i: Dim.AUTO for i in range(value.ndim) if (name, i) in free} if isinstance(value, torch.Tensor)
              else None for name, value in example.items()}
    with torch.no_grad():
        program = torch.export.export(module, (), example, dynamic_shapes=shapes, strict=False)
        return program.run_decompositions({})


# ---- Sizes ----------------------------------------------------------------------------------------------------------


class Sizes:
    """Names for the free sizes, and expressions over them."""

    def __init__(self, program, inputs):
        self.names, self.ranges = {}, {}
        for name, node in inputs.items():
            for i, size in enumerate(node.meta["val"].shape):
                if isinstance(size, torch.SymInt):
                    self.add(program, size.node.expr, "batch" if i == 0 else "n", f"{name}_{i}")

    def add(self, program, symbol, name, other):
        if not isinstance(symbol, sympy.Symbol):
            refuse(f"{other} is {symbol}")
        if symbol in self.names:
            return
        if name != "batch" and name in self.names.values():
            name = other
        self.names[symbol] = name
        if name != "batch":
            limits = program.range_constraints.get(symbol)
            most = limits.upper if limits is not None else math.inf
            self.ranges[name] = {"least": 1, "most": int(most) if isinstance(most, (int, sympy.Integer)) else None}

    def text(self, size):
        """A size as config.json has it: an integer, or an expression."""
        if isinstance(size, int):
            return size
        expression = size.node.expr if isinstance(size, torch.SymInt) else size
        return int(expression) if expression.is_Integer else self.expression(expression)

    def expression(self, e):
        """Sums of products, with brackets where they are needed."""
        if e.is_Integer:
            return str(int(e))
        if e in self.names:
            return self.names[e]
        kind = type(e).__name__
        if kind == "Add":
            terms = sorted(e.args, key=lambda term: (term.is_number, term.could_extract_minus_sign(), str(term)))
            first, *others = [self.expression(term) for term in terms]
            return first + "".join(f" - {text[1:]}" if text[0] == "-" else f" + {text}" for text in others)
        if kind == "Mul":
            sign, factors = (-1, (-e).as_ordered_factors()) if e.could_extract_minus_sign() else (1, e.as_ordered_factors())
            text = " * ".join(self.bracketed(factor) for factor in sorted(factors, key=lambda one: (not one.is_number, str(one))))
            return f"-{text}" if sign < 0 else text
        if kind in ("FloorDiv", "CleanDiv"):
            return f"{self.bracketed(e.args[0])} // {self.bracketed(e.args[1])}"
        if kind in ("Mod", "PythonMod"):
            return f"{self.bracketed(e.args[0])} % {self.bracketed(e.args[1])}"
        if kind in ("Pow", "PowByNatural") and e.args[1].is_Integer and 0 < int(e.args[1]) < 5:
            return " * ".join([self.bracketed(e.args[0])] * int(e.args[1]))
        return refuse(f"a size is {e}, which is no sum, product or quotient of sizes")

    def bracketed(self, e):
        text = self.expression(e)
        return text if e in self.names or e.is_Integer and e >= 0 else f"({text})"


# ---- Nodes ----------------------------------------------------------------------------------------------------------

SAME = {"alias", "clone", "contiguous", "detach", "dropout", "feature_dropout", "alpha_dropout", "lift_fresh",
        "lift_fresh_copy", "detach_"}
NAMES = {"_unsafe_view": "view", "_softmax": "softmax", "_to_copy": "to", "__and__": "bitwise_and", "__or__": "bitwise_or",
         "_log_softmax": "log_softmax", "_native_batch_norm_legit_no_training": "batch_norm"}
LEFT_OUT = {"memory_format", "layout", "device", "pin_memory", "non_blocking", "copy", "generator", "cudnn_enabled",
            "momentum", "training", "use_input_stats", "cudnn_enable", "half_to_float", "padding_idx", "scale_grad_by_freq",
            "sparse", "implicit", "align_to_window"}


class Translation:
    """The nodes of a program as config.json has them."""

    def __init__(self, program, found):
        self.program, self.found = program, found
        signature = program.graph_signature
        self.files = {**signature.inputs_to_parameters, **signature.inputs_to_buffers,
                      **signature.inputs_to_lifted_tensor_constants}
        placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
        self.inputs = {node.name: node for node in placeholders if node.name in signature.user_inputs}
        self.sizes = Sizes(program, self.inputs)
        self.references = {}  # fx node -> name of an input, a result or "@tensor"; of several results a list
        self.nodes, self.counts, self.seen = [], {}, {}
        for node in placeholders:
            self.references[node] = f"@{self.files[node.name]}" if node.name in self.files else node.name

    def run(self):
        for node in self.program.graph.nodes:
            if node.op == "call_function":
                self.translate(node)
            elif node.op == "output":
                self.results = [self.references[value] for value in node.args[0]]
        return self

    def new_name(self, op):
        while True:
            count = self.counts[op] = self.counts.get(op, -1) + 1
            name = f"{op}_{count}" if count else op
            if name not in self.inputs and name not in self.sizes.names.values():
                return name

    def emit(self, op, arguments, results=None):
        """Appends a node, or finds the same one. Returns the name of its result, or names."""
        key = repr((op, arguments, results))
        if key not in self.seen:
            to = self.new_name(op) if results is None else [self.new_name(op) for _ in range(results)]
            self.nodes.append({"op": op, "to": to, **arguments})
            self.seen[key] = to
        return self.seen[key]

    def translate(self, node):
        target = node.target
        if target is operator.getitem:
            values = self.references[node.args[0]]
            self.references[node] = values[node.args[1]] if isinstance(values, list) else values
        elif isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)):
            return  # arithmetic on sizes: its result stands in node.meta
        elif target is torch.ops.linformerd.leaf.default:
            self.translate_leaf(node)
        elif isinstance(target, torch._ops.OpOverload) and not node.users:
            return
        else:
            self.translate_operation(node)

    def translate_leaf(self, node):
        inputs, path, names = node.args
        leaf = self.found[path]
        if "max_seq_len" in leaf.kwargs and leaf.kwargs["max_seq_len"] is None:
            length = inputs[0].meta["val"].shape[1]
            leaf.kwargs["max_seq_len"] = length if isinstance(length, int) else 16384
        arguments = {"class": leaf.architecture, "path": path, "kwargs": leaf.kwargs,
                     "inputs": dict(zip(names.split(), map(self.references.get, inputs)))}
        n_results = len(node.meta["val"])
        name = self.new_name(path.rpartition(".")[2].strip("0123456789") or "leaf")
        to = name if n_results == 1 else [name, self.new_name(name)]
        self.nodes.append({"op": "leaf", "to": to, **arguments})
        self.references[node] = to

    def translate_operation(self, node):
        target, op = node.target, node.target._opname
        op = NAMES.get(op, op)
        if op in SAME:
            if op.endswith("dropout") and node.args[2]:
                self.refuse(node, "dropout is active though the module is in eval mode")
            self.references[node] = self.references[node.args[0]]
            return
        arguments = self.arguments(node)
        lower = getattr(self, f"lower_{op}", None)
        if lower:
            self.references[node] = lower(node, arguments)
        elif op not in OPERATIONS:
            self.refuse(node, f"operation {op} is not there; there are: {' '.join(sorted(OPERATIONS))}")
        else:
            value = node.meta["val"]
            several = isinstance(value, (list, tuple)) and op in ("chunk", "split", "split_with_sizes", "unbind")
            self.references[node] = self.emit(op, arguments, len(value) if several else None)

    def arguments(self, node):
        """The arguments by their names in the schema, without those that have the schema's defaults."""
        schema, given = node.target._schema.arguments, {}
        for i, argument in enumerate(schema):
            if i < len(node.args):
                given[argument.name] = (node.args[i], argument)
            elif argument.name in node.kwargs:
                given[argument.name] = (node.kwargs[argument.name], argument)
        return {name: self.value(node, value) for name, (value, argument) in given.items()
                if name not in LEFT_OUT and not (argument.has_default_value() and value == argument.default_value)}

    def value(self, node, value):
        if isinstance(value, torch.fx.Node):
            inner = value.meta["val"]
            if isinstance(inner, torch.Tensor):
                return self.references[value]
            return self.value(node, inner)
        if isinstance(value, (list, tuple)):
            return [self.value(node, one) for one in value]
        if isinstance(value, torch.SymInt):
            return self.sizes.text(value)
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            self.refuse(node, f"a number is made of sizes: {value}")
        if isinstance(value, torch.dtype):
            return dtype_name(value)
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        return value

    def refuse(self, node, message):
        refuse(f"{message} ({source_of(node)})")

    # ---- Operations that are written otherwise

    def lower_view(self, node, arguments):
        shape = [self.sizes.text(size) for size in node.meta["val"].shape]
        return self.emit("view", {"self": arguments["self"], "size": shape})

    lower_reshape = lower_view

    def lower_expand(self, node, arguments):
        shape = [self.sizes.text(size) for size in node.meta["val"].shape]
        return self.emit("expand", {"self": arguments["self"], "size": shape})

    def lower_slice(self, node, arguments):
        if arguments.get("end") == LAST:
            del arguments["end"]
        if not arguments.get("start"):
            arguments.pop("start", None)
        if set(arguments) <= {"self", "dim"}:
            return arguments["self"]
        return self.emit("slice", arguments)

    def lower_to(self, node, arguments):
        source, target = (one.meta["val"].dtype for one in (node.args[0], node))
        if source == target or source.is_floating_point and target.is_floating_point:
            return arguments["self"]
        return self.emit("to", {"self": arguments["self"], "dtype": dtype_name(target)})

    def lower_matmul(self, node, arguments):
        a, b = (one.meta["val"].shape for one in node.args[:2])
        names = [arguments["self"], arguments["other"]]
        if len(a) == len(b) == 2:
            return self.emit("mm", {"self": names[0], "mat2": names[1]})
        if len(a) == len(b) == 3 and a[0] == b[0]:
            return self.emit("bmm", {"self": names[0], "mat2": names[1]})
        left, right, out = matmul_letters(len(a), len(b))
        return self.emit("einsum", {"equation": f"{left},{right}->{out}", "tensors": names})

    def lower_abs(self, node, arguments):
        if not node.args[0].meta["val"].is_complex():
            return self.emit("abs", arguments)
        return self.emit("linalg_vector_norm", {"self": arguments["self"], "dim": [-1]})

    def lower_stft(self, node, arguments):
        """A complex number is a last dimension of two: real and imaginary part."""
        arguments["return_complex"] = False
        return self.emit("stft", arguments)


def matmul_letters(rank_a, rank_b):
    batch = "abcdefgh"[: max(rank_a, rank_b) - 2]
    left, right = batch[len(batch) - max(0, rank_a - 2) :], batch[len(batch) - max(0, rank_b - 2) :]
    i, j = ("i" if rank_a > 1 else ""), ("j" if rank_b > 1 else "")
    return f"{left}{i}k", f"{right}k{j}", f"{batch}{i}{j}"


def dtype_name(dtype):
    return "float32" if dtype.is_floating_point else str(dtype).rpartition(".")[2]


def source_of(node):
    """The line of the user's own code that a node comes from."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    places = [(line, code) for line, code in zip(lines, lines[1:] + [""]) if line.startswith("File ")]
    own = [one for one in places if "/torch/" not in one[0] and "/einops/" not in one[0]] or places
    return " ".join(own[-1]) if own else f"node {node.name}"


# ---- The whole ------------------------------------------------------------------------------------------------------


def find_leaves(module):
    return {path: Leaf(path, part, architecture) for path, part in module.named_modules()
            if (architecture := leaves.architecture_of(part)) and not inside(module, path)}


def inside(module, path):
    return False


def graph_of(module, example, free=None):
    """The graph as config.json has it, and the tensors by name."""
    free = free or {(name, i) for name, value in example.items() if isinstance(value, torch.Tensor) for i in range(value.ndim)
            if value.shape[i] > 1}
    found = find_leaves(module)
    with in_eval_mode(module), opaque(found):
        program = trace(module, example, free)
    translation = Translation(program, found).run()
    nodes = [node for node in alive(translation.nodes, translation.results)]
    inputs = [{"name": name, "dtype": INPUT_DTYPES.get(node.meta["val"].dtype, "float32"),
               "shape": [translation.sizes.text(size) for size in node.meta["val"].shape]}
              for name, node in translation.inputs.items()]
    graph = {"inputs": inputs, "sizes": translation.sizes.ranges, "nodes": nodes,
             "outputs": outputs_of(program, translation.results)}
    return graph, tensors_of(module, program, nodes, found)


def alive(nodes, results):
    """The nodes that the outputs need."""
    wanted, kept = set(results), []
    for node in reversed(nodes):
        if wanted.intersection(node["to"] if isinstance(node["to"], list) else [node["to"]]):
            kept.append(node)
            wanted.update(strings_in([value for key, value in node.items() if key not in ("op", "to", "kwargs")]))
    return kept[::-1]


def strings_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from strings_in(one)


def outputs_of(program, results):
    spec = program.call_spec.out_spec
    paths = [torch.utils._pytree.keystr(path) for path, _ in torch.utils._pytree.tree_flatten_with_path(
        torch.utils._pytree.tree_unflatten(list(range(len(results))), spec))[0]]
    names = [".".join(part.strip("'\"") for part in path.strip("[]").split("][")) for path in paths]
    return {"output" if not name else f"output.{name}" if name[0].isdigit() else name: result
            for name, result in zip(names, results)}


def tensors_of(module, program, nodes, found):
    """state_dict() and constants, of what the nodes read."""
    everything = {**program.constants, **dict(module.named_buffers(remove_duplicate=False)),
                  **dict(module.named_parameters(remove_duplicate=False))}
    read = {text[1:] for node in nodes for text in strings_in([*node.values()]) if text[:1] == "@"}
    paths = {node["path"] for node in nodes if node["op"] == "leaf"}
    return {name: tensor for name, tensor in everything.items()
            if name in read or any(name.startswith(f"{path}." if path else "") for path in paths)}
