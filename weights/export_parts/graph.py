"""Converts a traced program to the graph of config.json.

Part of export_module(). A node of the graph is an ATen operation with its arguments by name, or a leaf. Sizes are
integers, or expressions of the names of the free sizes."""

import functools
import math
import operator
import re

import sympy
import torch

from . import refuse
from .trace import LEAF, is_written, place

# The operations of the daemon, by their ATen names.
OPERATIONS = set("""
    add sub rsub mul div pow maximum minimum eq ne lt le gt ge logical_and logical_or logical_xor logical_not bitwise_not
    bitwise_and bitwise_or where masked_fill neg abs sqrt rsqrt square reciprocal exp expm1 log log1p sin cos tanh sigmoid
    relu relu6 leaky_relu elu selu gelu silu mish softplus hardtanh hardswish hardsigmoid log_sigmoid erf floor ceil round
    sign clamp clamp_min clamp_max isnan to glu prelu
    embedding linear layer_norm rms_norm batch_norm group_norm instance_norm conv1d conv2d conv_transpose1d
    conv_transpose2d scaled_dot_product_attention softmax log_softmax max_pool1d max_pool2d avg_pool1d avg_pool2d
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d
    matmul bmm mm baddbmm addmm einsum
    mean sum std var amax amin max min all any prod linalg_vector_norm norm argmax cumsum
    view reshape flatten unflatten squeeze unsqueeze permute transpose t movedim expand expand_as repeat cat stack chunk
    split split_with_sizes unbind select slice index_select flip roll pad pixel_shuffle pixel_unshuffle
    arange zeros ones full zeros_like ones_like full_like scalar_tensor
    upsample_nearest2d upsample_nearest1d upsample_bilinear2d stft
""".split())

# Operations that have another name in config.json, and operations whose result is their input.
NAMES = {"_softmax": "softmax", "_log_softmax": "log_softmax", "__and__": "bitwise_and", "__or__": "bitwise_or",
         "conv_transpose2d": "conv_transpose2d", "true_divide": "div", "divide": "div", "multiply": "mul",
         "subtract": "sub", "absolute": "abs", "clip": "clamp", "concat": "cat", "concatenate": "cat", "negative": "neg",
         "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne", "tile": "repeat",
         "swapaxes": "transpose", "swapdims": "transpose", "moveaxis": "movedim"}
SAME = {"alias", "clone", "contiguous", "detach", "dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout",
        "lift_fresh", "lift_fresh_copy", "lift", "positive", "resolve_conj", "resolve_neg", "conj_physical"}
RANDOM = {"rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "bernoulli", "multinomial",
          "normal", "uniform", "exponential", "rrelu_with_noise", "native_dropout", "normal_functional"}
CHECKS = {"_assert_scalar", "_assert_tensor_metadata", "_assert_async", "sym_constrain_range",
          "sym_constrain_range_for_size"}
LEFT_OUT = {"memory_format", "layout", "device", "pin_memory", "non_blocking", "copy", "generator", "cudnn_enabled",
            "momentum", "training", "use_input_stats", "cudnn_enable", "half_to_float", "padding_idx", "sparse",
            "scale_grad_by_freq", "implicit", "align_to_window", "dropout_p", "is_coalesced"}
SEVERAL = {"chunk", "split", "split_with_sizes", "unbind"}
# Arguments that may be a number instead of a tensor of one element.
NUMBERS = {"other", "exponent", "value", "min", "max"}
MAX_CONSTANT = 1 << 24  # limit for the elements of a constant that the exporter computes
NUMBER_WORDS = ("inf", "-inf", "nan")  # JSON has no such numbers
WORD = re.compile(r"[A-Za-z_][\w.]*")
INPUT_DTYPES = {torch.int64: "int64", torch.int32: "int32", torch.bool: "bool"}

# Arguments that become tensors of the file. For these the daemon accepts nothing else, except in MAY_BE_COMPUTED.
KERNELS, VECTORS, STATISTICS = ("weight", "bias"), ("weight", "bias"), ("running_mean", "running_var")
FROM_FILE = {
    **dict.fromkeys(("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "linear"), KERNELS),
    **dict.fromkeys(("layer_norm", "native_layer_norm", "group_norm", "native_group_norm"), VECTORS),
    **dict.fromkeys(("batch_norm", "_native_batch_norm_legit_no_training", "instance_norm"), VECTORS + STATISTICS),
    "rms_norm": ("weight",), "embedding": ("weight",), "stft": ("window",)}
# Operations that also accept a computed argument. A tensor of the file costs less time in a request.
MAY_BE_COMPUTED = {"linear", "rms_norm"}

# FIXED: arguments that must be fixed integers for the daemon. NUMERIC: arguments that must be numbers.
WINDOW = ("kernel_size", "stride", "padding", "dilation", "divisor_override")
FIXED = {
    **dict.fromkeys(("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"),
                    ("stride", "padding", "output_padding", "dilation", "groups")),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d"), WINDOW),
    "pad": ("pad",), "roll": ("shifts",), "slice": ("step",), "chunk": ("chunks",), "group_norm": ("num_groups",),
    "stft": ("n_fft", "hop_length", "win_length"), "arange": ("step",), "pixel_shuffle": ("upscale_factor",),
    "pixel_unshuffle": ("downscale_factor",)}
NUMERIC = {
    "clamp": ("min", "max"), "clamp_min": ("min",), "clamp_max": ("max",), "hardtanh": ("min_val", "max_val"),
    "leaky_relu": ("negative_slope",), "elu": ("alpha", "scale", "input_scale"), "softplus": ("beta", "threshold"),
    **dict.fromkeys(("add", "sub", "rsub"), ("alpha",)), **dict.fromkeys(("addmm", "baddbmm"), ("alpha", "beta")),
    **dict.fromkeys(("layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm"), ("eps",)),
    **dict.fromkeys(("full", "full_like"), ("fill_value",)), **dict.fromkeys(("var", "std"), ("correction",)),
    "scaled_dot_product_attention": ("scale",), "linalg_vector_norm": ("ord",), "pad": ("value",)}


def name_of(node):
    """The operation's name in config.json, before lower.py replaces the operation."""
    op = node.target._opname
    if is_written(node):
        op = op[:-1]
    return NAMES.get(op, op)


def is_known(node):
    """Whether the exporter knows the operation. The daemon has it, or lower.py writes it as other operations. Or the
    exporter leaves it out, or refuses it as random."""
    from .lower import LOWER

    op = name_of(node)
    return node.target.namespace == "aten" and any(op in names for names in (OPERATIONS, LOWER, SAME, RANDOM, CHECKS))


class NotFree(Exception):
    """The graph cannot be written if these sizes are free."""

    def __init__(self, symbols, message):
        super().__init__(message)
        self.symbols = symbols


# ---- Sizes ----------------------------------------------------------------------------------------------------------


def free_symbols(sizes):
    return {symbol for size in sizes if is_free(size) for symbol in size.node.expr.free_symbols}


def shares_memory(one, other):
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def is_free(size):
    """Whether a size, or a number that is computed from sizes, has no fixed value."""
    return isinstance(size, (torch.SymInt, torch.SymFloat)) and not size.node.expr.is_number


class Sizes:
    """The free sizes of a program: their names, and expressions of them.

    places: name -> pairs (input, dimension) that have this size. most: name -> the largest value that the trace
    allows."""

    def __init__(self, program, inputs, ties):
        self.names, self.places, self.most, taken = {}, {}, {}, set(inputs)
        for i in (0, 1, 2, 3, 4):  # the batch gets its name first
            for name, node in inputs.items():
                shape = node.meta["val"].shape
                if i < len(shape) and is_free(shape[i]):
                    words = ["height", "width"][i - 2 : i - 1] if len(shape) == 4 and i > 1 else ["n"]
                    words += [f"{name}_{i}", f"{name}_size_{i}"]
                    self.add(program, shape[i].node.expr, (name, i), ties, (words, taken))

    def add(self, program, symbol, place, ties, choice):
        words, taken = choice
        if not isinstance(symbol, sympy.Symbol):
            name, dimension = place
            raise NotFree(symbol.free_symbols, f"dimension {dimension} of {name} depends on other sizes: {symbol}")
        tied = ties.get(place, place)
        name = self.names.get(symbol) or next((n for n, places in self.places.items() if tied in places), None)
        if place[1] == 0:
            name = "batch"
        elif name is None:
            name = next(word for word in words if word not in taken)
        taken.add(name)
        self.names[symbol] = name
        self.places.setdefault(name, []).append(place)
        limits = program.range_constraints.get(symbol)
        upper = limits.upper if limits is not None else math.inf
        if isinstance(upper, (int, sympy.Integer)) and upper < 1 << 40:
            self.most[name] = min(self.most.get(name, int(upper)), int(upper))

    def text(self, size):
        """A size in the form of config.json."""
        if isinstance(size, int):
            return size
        expression = size.node.expr if hasattr(size, "node") else sympy.sympify(size)
        return int(expression) if expression.is_Integer else self.expression(expression)

    def is_size(self, text):
        """Whether a string is an expression of sizes, and not the name of a tensor."""
        return all(word in self.places for word in WORD.findall(text)) and not text.startswith("@")

    def symbols_in(self, text):
        words = set(WORD.findall(text))
        return {symbol for symbol, name in self.names.items() if name in words}

    def expression(self, e):
        kind = type(e).__name__
        if e.is_Integer:
            return str(int(e))
        if e in self.names:
            return self.names[e]
        if kind == "Add":
            return self.sum(e)
        if kind == "Mul" and e.could_extract_minus_sign():
            return f"-{self.bracketed(-e)}"
        if kind == "Mul" and all(not factor.is_Rational or factor.is_Integer for factor in e.args):
            factors = sorted(e.args, key=lambda one: (not one.is_number, str(one)))
            return " * ".join(self.bracketed(factor) for factor in factors)
        if kind in ("FloorDiv", "CleanDiv", "Mod", "PythonMod"):
            sign = "//" if kind.endswith("Div") else "%"
            return f"{self.bracketed(e.args[0])} {sign} {self.bracketed(e.args[1])}"
        if kind in ("Pow", "PowByNatural") and e.args[1].is_Integer and 0 < int(e.args[1]) < 5:
            return " * ".join([self.bracketed(e.args[0])] * int(e.args[1]))
        raise NotFree(e.free_symbols, f"the size {e} cannot be expressed by sums, products and quotients of sizes")

    def sum(self, e):
        terms = sorted(e.args, key=lambda one: (one.is_number, one.could_extract_minus_sign(), str(one)))
        first, *others = [self.expression(term) for term in terms]
        return first + "".join(f" - {text[1:]}" if text[0] == "-" else f" + {text}" for text in others)

    def bracketed(self, e):
        text = self.expression(e)
        return text if e in self.names or (e.is_Integer and e >= 0) else f"({text})"


# ---- The graph ------------------------------------------------------------------------------------------------------


class Graph:
    """A program's nodes in the form of config.json.

        references  torch.fx node -> its name in the graph, or a list of names if it has several results. "@name" is a
                    tensor of the file
        constants   torch.fx node -> its value, for nodes that do not depend on inputs or parameters
        made        name in the file -> constant that the nodes read
        fixed       torch.fx node -> a function that computes its value, for nodes that do not depend on inputs
        source      torch.fx node that is being added
        viewed      result of a view -> the result that it shows, and the shape of that result
        batch       the batch's size, if the trace has it as a plain number. A node with this size is not a constant"""

    def __init__(self, program, found, ties, batch=None):
        self.program, self.found, self.batch, signature = program, found, batch, program.graph_signature
        lifted = signature.inputs_to_lifted_tensor_constants
        self.files = {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **lifted}
        placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
        self.inputs = {node.name: node for node in placeholders if node.name in signature.user_inputs
                       and isinstance(node.meta.get("val"), torch.Tensor)}
        self.sizes = Sizes(program, self.inputs, ties)
        self.nodes, self.counts, self.seen, self.viewed = [], {}, {}, {}
        self.made, self.constants, self.fixed, self.references = {}, {}, {}, {}
        for node in placeholders:
            file = self.files.get(node.name)
            self.references[node] = node.name if file is None else f"@{file}"
            if file is not None:
                self.fixed[node] = functools.partial(self.tensor, file)
            if node.name in lifted or self.is_fixed_buffer(file):
                self.constants[node] = self.tensor(file)
        self.results, self.output_shapes = {}, {}
        for node in program.graph.nodes:
            if node.op == "call_function":
                self.add_at_line(node)
            elif node.op == "output":
                self.results = self.name_outputs(node.args[0])

    # ---- Tensors of the file

    def is_fixed_buffer(self, file):
        """Whether a tensor is a buffer that is not saved in the state_dict, or a buffer without floats."""
        signature = self.program.graph_signature
        if file not in signature.inputs_to_buffers.values():
            return False
        return file in signature.non_persistent_buffers or not self.tensor(file).is_floating_point()

    def tensor(self, file):
        state = self.program.state_dict
        return (state[file] if file in state else self.program.constants[file]).detach()

    def constant(self, node):
        """The reference of a constant. Its value becomes a tensor of the file."""
        value = self.constants[node]
        if isinstance(value, (list, tuple)):
            return [None for _ in value]
        name = f"@{self.files[node.name]}" if node.op == "placeholder" else f"@constant.{node.name}"
        self.made[name[1:]] = value
        return name

    def evaluate(self, node):
        """Computes a node that only depends on constants. Returns whether the node is such a node."""
        if not self.is_made_of(node, self.constants):
            return False
        written = is_written(node)
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda one: self.known(one, written))
        with torch.no_grad():
            self.constants[node] = node.target(*args, **kwargs)
        if written:
            self.constants[node.args[0]] = self.constants[node]
        return True

    def is_made_of(self, node, values):
        """Whether the node has a fixed shape, and can be computed from numbers and from the nodes in `values`."""
        if node.target.namespace not in ("aten", "prims"):
            return False
        if not all(one in values or self.is_number(one) for one in node.all_input_nodes):
            return False
        if any(is_free(size) or size == self.batch for size in self.shape_of(node)) or self.sized(node):
            return False
        return math.prod(self.shape_of(node)) <= MAX_CONSTANT and node.target._opname not in RANDOM

    def note_fixed(self, node):
        """Keeps a function that computes a node, if the node does not depend on inputs. Does not compute the node
        yet."""
        written = is_written(node)
        if not self.is_made_of(node, self.fixed):
            if written:
                self.fixed.pop(node.args[0], None)
            return
        sources = {one: self.fixed[one] for one in node.all_input_nodes if one in self.fixed}

        def known(one):
            value = sources[one]() if one in sources else self.known(one, False)
            return value.clone() if written and isinstance(value, torch.Tensor) else value

        @functools.lru_cache(maxsize=None)
        def compute():
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), known)
            with torch.no_grad():
                return node.target(*args, **kwargs)

        self.fixed[node] = compute
        if written:
            self.fixed[node.args[0]] = compute

    def of_file(self, node):
        """The reference of a tensor of the file, or of a view of such a tensor. Computes a node that only depends on
        tensors of the file. Returns None if the node depends on an input."""
        reference = self.reference(node)
        if reference[0] == "@":
            return reference
        if node not in self.fixed:
            return None
        value = self.fixed[node]()
        if any(shares_memory(value, self.tensor(file)) for file in self.files.values()):
            return reference
        name = f"constant.{node.name}"
        self.made[name] = value.contiguous()
        return f"@{name}"

    def line_of(self, constant):
        """The line of forward() that makes a constant."""
        nodes = [node for node in self.program.graph.nodes if constant == f"constant.{node.name}"]
        return place(nodes[0].meta.get("stack_trace") if nodes else None)

    def known(self, node, written):
        value = self.constants[node] if node in self.constants else node.meta["val"]
        if isinstance(value, torch.Tensor):
            return value.clone() if written else value
        return int(value) if isinstance(value, torch.SymInt) else value

    def is_number(self, node):
        return isinstance(node.meta.get("val"), (int, float, bool, torch.SymInt))

    def sized(self, node):
        return any(is_free(one.meta.get("val")) for one in node.all_input_nodes)

    def shape_of(self, node):
        value = node.meta.get("val")
        if isinstance(value, (list, tuple)):
            return [size for one in value if isinstance(one, torch.Tensor) for size in one.shape[:1]]
        return list(value.shape) if isinstance(value, torch.Tensor) else []

    # ---- Nodes

    def add_at_line(self, node):
        """Adds a node. If a size cannot be free, the error names the line of forward()."""
        try:
            self.add(node)
        except NotFree as error:
            raise NotFree(error.symbols, f"{error} ({place(node.meta.get('stack_trace'))})") from None

    def add(self, node):
        value, target = node.meta.get("val"), node.target
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)):
            return  # arithmetic of sizes. The torch.fx node knows the result
        if target is LEAF:
            self.add_leaf(node)
        elif target is operator.getitem:
            self.add_item(node)
        elif not isinstance(target, torch._ops.OpOverload):
            self.refuse(node, f"{target} is not an operation of PyTorch")
        elif target._opname not in CHECKS:
            self.note_fixed(node)
            if not self.evaluate(node):
                self.add_operation(node)

    def add_item(self, node):
        source, index = node.args
        if source in self.fixed:
            whole = self.fixed[source]
            self.fixed[node] = lambda: whole()[index]
        if source in self.constants:
            self.constants[node] = self.constants[source][index]
            return
        references = self.references[source]
        self.references[node] = references[index] if isinstance(references, list) else references
        if self.references[node] is None and node.users:
            self.refuse(node, f"result {index} of {source.target._opname} is not supported")

    def add_leaf(self, node):
        inputs, path, names = node.args
        leaf = self.found[path]
        kwargs = dict(leaf.kwargs)
        for one in inputs:
            self.check_features(one.meta["val"], path)
        if kwargs.get("max_seq_len", 0) is None:
            length = inputs[0].meta["val"].shape[1]
            kwargs["max_seq_len"] = self.most_of(length) if is_free(length) else int(length)
        arguments = {"class": leaf.architecture, "path": leaf.path, "kwargs": kwargs}
        if leaf.padding:
            arguments["padding"] = leaf.padding
        arguments["inputs"] = dict(zip(names.split(), map(self.reference, inputs)))
        word = next((word for word in reversed(path.split(".")) if not word.isdigit()), "") or "leaf"
        read = {user.args[1] for user in node.users if user.users}
        to = [self.new_name(word) if i in read else None for i in range(len(node.meta["val"]))]
        self.nodes.append({"op": "leaf", "to": to[0] if len(to) == 1 else to, **arguments})
        self.references[node] = to

    def check_features(self, value, path):
        """Raises NotFree if an input of a class has a free number of features. The class has weights for a fixed
        number. Features are the channels of an image, or otherwise the last dimension."""
        features = value.shape[1 if value.ndim == 4 else -1]
        if value.is_floating_point() and value.ndim > 2 and is_free(features):
            raise NotFree(features.node.expr.free_symbols,
                          f"the number of features of {path} must be fixed, but is {features}")

    def most_of(self, length):
        """The largest value of a length, for a class that itself has no limit."""
        from .leaves import UNLIMITED

        ranges = length.node.shape_env.bound_sympy(length.node.expr)
        return int(ranges.upper) if isinstance(ranges.upper, sympy.Integer) and ranges.upper < UNLIMITED else UNLIMITED

    def add_operation(self, node):
        from .lower import LOWER

        op, self.source = name_of(node), node
        if op in SAME:
            self.check_training(node, op)
            result = self.reference(node.args[0])
        elif op in RANDOM or "train" in node.kwargs:
            self.refuse(node, f"{op} is random, which is not supported")
        else:
            lower = LOWER.get(op)
            if not is_known(node):
                name = op if node.target.namespace == "aten" else node.target.name()
                self.refuse(node, f"the operation {name} is not supported. Supported are "
                                  f"{', '.join(sorted(OPERATIONS))}, and the operations that PyTorch composes of these")
            self.check_complex(node, op)
            arguments = self.arguments(node)
            self.take_from_file(node, op, arguments)
            result = lower(self, node, arguments) if lower else self.emit_like(node, op, arguments)
        self.references[node] = result
        if is_written(node):
            self.references[node.args[0]] = result
            self.constants.pop(node.args[0], None)

    def emit_like(self, node, op, arguments):
        return self.emit(op, arguments, len(node.meta["val"]) if op in SEVERAL else None)

    def emit(self, op, arguments, results=None):
        """Appends a node, unless there is an equal one. Returns the name of the result, or the names of the results."""
        arguments = {name: value for name, value in arguments.items() if value is not None}
        self.check_arguments(op, arguments)
        key = repr((op, sorted(arguments.items()), results))
        if key not in self.seen:
            self.seen[key] = self.new_name(op) if results is None else [self.new_name(op) for _ in range(results)]
            self.nodes.append({"op": op, "to": self.seen[key], **arguments})
        return self.seen[key]

    def new_name(self, word):
        while True:
            count = self.counts[word] = self.counts.get(word, -1) + 1
            name = f"{word}_{count}" if count else word
            if name not in self.inputs and name not in self.sizes.places:
                return name

    # ---- Arguments

    def reference(self, node):
        return self.constant(node) if node in self.constants else self.references[node]

    def shape(self, node):
        return [self.sizes.text(size) for size in node.meta["val"].shape]

    def arguments(self, node):
        """The arguments by their names in the schema. Leaves out arguments that have the schema's defaults."""
        schema, arguments = node.target._schema.arguments, {}
        for i, argument in enumerate(schema):
            name, given = argument.name, node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
            if given is None or name in LEFT_OUT or is_default(argument, given):
                continue
            arguments[name] = self.argument(node, name, given)
        return arguments

    def given(self, node, name):
        """The value that forward() passed for an argument of the schema."""
        names = [argument.name for argument in node.target._schema.arguments]
        place = names.index(name)
        return node.args[place] if place < len(node.args) else node.kwargs.get(name)

    def take_from_file(self, node, op, arguments):
        """Some arguments must be tensors of the file. If forward() computes one from such tensors, replaces it by a new
        tensor of the file."""
        for name in FROM_FILE.get(op, ()):
            given = self.given(node, name) if name in arguments else None
            if not isinstance(given, torch.fx.Node):
                continue
            reference = self.of_file(given)
            if reference is not None:
                arguments[name] = reference
            elif op not in MAY_BE_COMPUTED:
                symbols = free_symbols(given.meta["val"].shape)
                message = f'{op}: "{name}" is computed from an input; expected a tensor of the module'
                if symbols - self.batch_symbols():
                    raise NotFree(symbols, message)
                self.refuse(node, message)

    def batch_symbols(self):
        return {symbol for symbol, name in self.sizes.names.items() if name == "batch"}

    def check_arguments(self, op, arguments):
        """Integers that the daemon needs fixed must be fixed, and numbers must be numbers."""
        for name in (*FIXED.get(op, ()), *NUMERIC.get(op, ())):
            given = arguments.get(name)
            for one in given if isinstance(given, list) else [given]:
                if not isinstance(one, str) or name in NUMERIC.get(op, ()) and one in NUMBER_WORDS:
                    continue
                if not self.sizes.is_size(one):
                    self.refuse(self.source, f'{op}: "{name}" is a tensor; expected a number')
                raise NotFree(self.sizes.symbols_in(one), f'{op}: "{name}" must be fixed, but is {one}')

    def argument(self, node, name, given):
        if isinstance(given, (list, tuple)):
            return [self.argument(node, "", one) for one in given]
        if isinstance(given, torch.fx.Node) and isinstance(given.meta["val"], torch.Tensor):
            if name in NUMBERS and given in self.constants and self.constants[given].ndim == 0:
                return plain_number(self.constants[given].item())
            return self.reference(given)
        value = given.meta["val"] if isinstance(given, torch.fx.Node) else given
        if isinstance(value, torch.SymInt):
            return self.sizes.text(value)
        if isinstance(value, torch.SymFloat):
            return self.number_of_sizes(value.node.expr, name)
        if isinstance(value, torch.dtype):
            return dtype_name(value)
        return plain_number(value)

    def number_of_sizes(self, expression, name):
        from .lower import scalar

        if name not in NUMBERS:
            raise NotFree(expression.free_symbols, f"{name} must be fixed, but is {expression}")
        return scalar(self, expression)

    # ---- What is refused

    def refuse(self, node, message):
        refuse(f"{message} ({place(node.meta.get('stack_trace'))})")

    def check_training(self, node, op):
        if "dropout" in op and node.args[2]:
            self.refuse(node, f"{op} drops values although the module is in eval mode: pass training=self.training")

    def check_complex(self, node, op):
        for one in [node, *node.all_input_nodes]:
            value = one.meta.get("val")
            if isinstance(value, torch.Tensor) and value.is_complex() and op not in COMPLEX:
                self.refuse(node, f"{op} of complex numbers is not supported; supported for a result of stft are "
                                  f"{', '.join(sorted(COMPLEX))}")

    # ---- Outputs

    def name_outputs(self, values):
        """The results by the names of the outputs: "output", "output.0" …, or the keys of a dict."""
        from torch.utils import _pytree

        specs = self.program.graph_signature.output_specs
        for spec in specs:
            if spec.kind.name == "BUFFER_MUTATION":
                refuse(f'forward() writes the buffer "{spec.target}": a module that keeps a state cannot be served')
        values = [value for value, spec in zip(values, specs) if spec.kind.name == "USER_OUTPUT"]
        tree = without_names(_pytree.tree_unflatten(list(range(len(values))), self.program.call_spec.out_spec))
        results = {}
        for path, i in _pytree.tree_flatten_with_path(tree)[0]:
            name = output_name(path)
            if values[i] is not None:
                self.check_output(name, values[i])
                results[name] = self.reference(values[i])
                self.output_shapes[name] = self.shape(values[i])
        if not results:
            refuse("forward() returns no tensor")
        return results

    def check_output(self, name, node):
        value = node.meta.get("val") if isinstance(node, torch.fx.Node) else node
        if not isinstance(value, torch.Tensor):
            refuse(f"{name} is {type(value).__name__}; expected a tensor")
        if value.is_complex():
            refuse(f"{name} is complex: return its absolute value, or real and imaginary part")
        batch = self.shape(next(iter(self.inputs.values())))[0]  # a number if the trace has fixed the batch
        if not value.ndim or self.sizes.text(value.shape[0]) != batch:
            refuse(f"{name} has shape {list(value.shape)}: the first dimension of an output must be the batch")

    # ---- config.json

    def described(self):
        """Inputs, nodes and outputs in the form of config.json."""
        dtypes = {name: INPUT_DTYPES.get(node.meta["val"].dtype, "float32") for name, node in self.inputs.items()}
        inputs = [{"name": name, "dtype": dtypes[name], "shape": self.shape(node)} for name, node in self.inputs.items()]
        return {"inputs": inputs, "nodes": alive(self.nodes, self.results.values()), "outputs": self.results}


def without_names(tree):
    """Outputs with plain tuples instead of named tuples."""
    if isinstance(tree, tuple):
        return tuple(map(without_names, tree))
    if type(tree) in (list, dict):
        return [*map(without_names, tree)] if isinstance(tree, list) else {k: without_names(v) for k, v in tree.items()}
    return tree


def output_name(path):
    """The name of an output in config.json: "output" for a tensor, "output.0" for the first of a tuple, the key for a
    dict."""
    words = [str(getattr(key, "idx", getattr(key, "key", getattr(key, "name", key)))) for key in path]
    return ".".join(["output"] * (not words or words[0].isdigit()) + words)


COMPLEX = {"stft", "abs", "view_as_real", "real", "imag", "select", "slice", "transpose", "permute", "squeeze",
           "unsqueeze", "view", "reshape", "flatten", "cat"}


def is_default(argument, given):
    if not argument.has_default_value():
        return False
    default = argument.default_value
    if isinstance(given, (list, tuple)):
        expected = list(default) if isinstance(default, (list, tuple)) else [default] * len(given)
        return all(type(one) in (bool, int, float) for one in given) and list(given) == expected
    return type(given) in (bool, int, float, str) and given == default


def plain_number(value):
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def dtype_name(dtype):
    return "float32" if dtype.is_floating_point else str(dtype).rpartition(".")[2]


def alive(nodes, results):
    """The nodes on which the outputs depend."""
    wanted, kept = set(results), []
    for node in reversed(nodes):
        if wanted.intersection(node["to"] if isinstance(node["to"], list) else [node["to"]]):
            kept.append(node)
            wanted.update(words_in([value for key, value in node.items() if key not in ("op", "to", "kwargs")]))
    return kept[::-1]


def words_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from words_in(one)
