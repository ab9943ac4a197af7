"""Finds the free dimensions of the inputs, and the least and largest size of each.

Part of export_module(). The batch is free. Any other dimension is free if torch.export leaves it free, and if module
and graph agree at every tried length. The tried lengths are the neighbours of the example's length, the shortest, the
longest, and some between."""

import random
import re

import sympy
import torch

from . import refuse
from .check import TOLERANCE, compute, difference
from .graph import Graph, NotFree, is_free, output_name, without_names, words_in
from .trace import Untraceable, trace

BATCHES = (23, 29, 31)  # sizes that are unlikely to occur otherwise
EQUATION_TRIALS = 20  # number of random sizes for which an equation is tried
BATCH_TOLERANCE = 1e-3  # largest relative error between an item alone and the item in its batch
MAX_PROBED = 4  # this many times the example's length is tried, if no limit is known


def find(module, found, example):
    """The Graph, and "graph" of config.json. `most` of a size is None if no limit was found."""
    graph, ranges = Search(module, found, example).run()
    parts = described(graph)
    sizes = {name: {"least": least, "most": most} for name, (least, most) in ranges.items()}
    return graph, {"inputs": parts["inputs"], "sizes": sizes, "nodes": parts["nodes"], "outputs": parts["outputs"]}


class Search:
    """free: pairs (input, dimension) that may be free. ties: pair -> the pair that has the same size."""

    def __init__(self, module, found, example):
        self.module, self.found, self.example = module, found, example
        self.tensors = {name: value for name, value in example.items() if isinstance(value, torch.Tensor)}
        self.ties = {}

    def run(self):
        if self.module_outputs(self.example) is None:
            refuse(f"forward() fails with the example: {type(self.error).__name__}: {self.error}")
        graph = self.first_graph()
        while True:
            lost = self.tie(graph) or self.check(graph)
            if not lost:
                return graph, self.ranges
            graph = self.graph(self.free - lost)

    # ---- Tracing with fewer and fewer free dimensions

    def first_graph(self):
        """The graph with all dimensions free. If this cannot be traced, as many as possible are free."""
        batch = {(name, 0) for name in self.tensors}
        others = {(name, i) for name, value in self.tensors.items() for i in range(1, value.ndim) if value.shape[i] > 1}
        try:
            return self.graph(batch | others)
        except Untraceable:
            graph = self.graph(batch)  # if this also fails, the user sees its message
        for size in sorted({self.tensors[name].shape[i] for name, i in others}):
            group = {(name, i) for name, i in others if self.tensors[name].shape[i] == size}
            for more in [group] if len(group) == 1 else [group, *({one} for one in sorted(group))]:
                try:
                    graph = self.graph(self.free | more)
                    break
                except Untraceable:
                    continue
        return graph

    def graph(self, free):
        """The graph with these dimensions free. Dimensions become fixed if they lead to sizes that config.json cannot
        express."""
        while True:
            try:
                program = trace(self.module, self.found, self.example, free)
                symbols = {place: self.symbol(program, place) for place in free}
                hints = {symbol: self.length([place]) for place, symbol in symbols.items()}
                fixed = pinned_symbols(program, hints)
                pinned = {place for place, symbol in symbols.items() if place[1] > 0 and symbol in fixed}
                if pinned:
                    free = free - pinned
                    continue
                graph = Graph(program, self.found, self.ties)
                break
            except Untraceable as error:
                if free == {(name, 0) for name in self.tensors}:
                    refuse(str(error))
                raise
            except NotFree as error:
                places = {place for place in free if self.symbol(program, place) in error.symbols}
                if not places - {(name, 0) for name in self.tensors}:
                    refuse(str(error))
                free = free - {place for place in places if place[1] > 0}
        if "batch" not in graph.sizes.places:
            graph = self.merged(free)
        self.free = {place for places in graph.sizes.places.values() for place in places}
        return graph

    def merged(self, free):
        """The graph of a module that turns the batch into a plain number, as len(x) does. It is traced with several
        batches. The numbers that differ depend on the batch."""
        places = [(name, 0) for name in self.tensors]
        graphs = []
        for batch in BATCHES:
            example = self.resized({place: batch for place in places})
            graphs.append(Graph(trace(self.module, self.found, example, free), self.found, self.ties, batch))
        first, *others = graphs
        for name in differing_constants(graphs):
            refuse(f"forward() makes a constant that depends on the batch's size ({first.line_of(name)}); take the "
                   "size from a shape, such as x.shape[0]")
        try:
            first.merged = merge([graph.described() for graph in graphs])
        except LookupError as error:
            refuse(f"forward() computes something else with another batch size: found {error} items")
        first.sizes.places["batch"] = places
        return first

    def symbol(self, program, place):
        node = next(node for node in program.graph.nodes if node.op == "placeholder" and node.name == place[0])
        size = node.meta["val"].shape[place[1]]
        return size.node.expr if is_free(size) else None

    # ---- Sizes that must be equal, though the trace does not show it

    def tie(self, graph):
        """Ties two sizes of different inputs that are equal in the example, if the module fails when they differ.
        Returns places that make run() trace the graph again, or an empty set if no sizes were tied."""
        sizes = [(name, places) for name, places in graph.sizes.places.items() if name != "batch"]
        for i, (_, places) in enumerate(sizes):
            for _, others in sizes[:i]:
                alike = self.length(places) == self.length(others) and places[0][0] != others[0][0]
                if alike and not self.runs_apart(places):
                    self.ties.update({place: others[0] for place in places})
                    return {("", 0)}  # no input has this place: run() makes the graph again, and fixes no size
        return set()

    def length(self, places):
        name, i = places[0]
        return self.tensors[name].shape[i]

    def runs_apart(self, places):
        length = self.length(places)
        return any(self.module_outputs(self.resized({place: other for place in places})) is not None
                   for other in (length - 1, length + 1) if other > 0)

    # ---- Trying lengths

    def check(self, graph):
        """Finds the ranges of the sizes. Returns the places of the sizes that must be fixed, or an empty set."""
        self.now, self.ranges, places = graph, {}, graph.sizes.places
        self.config, self.file = described(graph), self.tensors_of(graph)
        self.check_batch(places["batch"])
        lost = set()
        for name in places:
            if name != "batch":
                self.ranges[name] = self.limits(name)
                lost.update(places[name] if self.ranges[name] is None else [])
        return lost or self.check_jointly(places)

    def tensors_of(self, graph):
        return {**dict(self.module.named_buffers(remove_duplicate=False)),
                **dict(self.module.named_parameters(remove_duplicate=False)), **graph.program.constants, **graph.made}

    def check_batch(self, places):
        """Tries batches of one to three items. An item may not depend on the other items of its batch, or on its
        place."""
        whole = self.module_outputs(self.example)
        for batch in (1, 2, 3):
            inputs = self.resized({place: batch for place in places})
            expected = self.module_outputs(inputs)
            if expected is None:
                refuse(f"forward() fails with a batch of {batch}: {self.error}")
            if not self.same_outputs(inputs, expected):
                refuse(f"the graph and the module differ with a batch of {batch}: {self.error}")
        for i in (0, -1):
            alone = {**self.example, **{name: value[[i]] for name, value in self.tensors.items()}}
            item = {name: value[[i]] for name, value in whole.items()}
            if not difference(self.module_outputs(alone), item) < BATCH_TOLERANCE:
                refuse("the outputs of an item depend on the other items of its batch, or on its place among them")

    def limits(self, name):
        """The least and the largest value of a size. None: the size must be fixed."""
        places, guard = self.now.sizes.places[name], self.now.sizes.most.get(name)
        good = lambda length: self.agrees({place: length for place in places})
        length = self.length(places)
        if not (good(length - 1) or (length != guard and good(length + 1))):
            return None
        least = 1 if good(1) else self.boundary(good, length, 1)
        most, bad = length, None
        for probe in self.probes(name, length, guard):
            if not good(probe):
                bad = probe
                break
            most = probe
        if bad is not None:
            most = self.boundary(good, most, bad)
        elif guard is None:
            most = None
        between = {least + 1, length - 1, length + 1, (least + length) // 2, (length + (most or length)) // 2}
        if not all(good(one) for one in between if least <= one <= (most or one)):
            return None
        return least, most

    def probes(self, name, length, guard):
        """Longer and longer lengths to try. If the trace has a limit, only the limit is tried. Otherwise the lengths
        are MAX_PROBED times the example's length, the number of rows of each table of positions, and one more row."""
        if guard is not None:
            return [guard] if guard > length else []
        rows = {self.file[node[key][1:]].shape[node.get("dim", 0)] for node in self.config["nodes"]
                for key in ("self", "weight") if self.is_table(node, key)}
        return sorted({length * MAX_PROBED, *(one for count in rows for one in (count, count + 1) if one > length)})

    def is_table(self, node, key):
        """Whether a node reads rows of a tensor of the file by their positions in the sequence."""
        table = node.get(key)
        if node["op"] not in ("slice", "embedding", "index_select") or not isinstance(table, str) or table[0] != "@":
            return False
        return node["op"] == "slice" or node.get("indices") not in self.fed()

    def fed(self):
        """The names of all results that depend on the values of an input."""
        names = {one["name"] for one in self.config["inputs"]}
        for node in self.config["nodes"]:
            read = [value for key, value in node.items() if key not in ("op", "to")]
            if node["op"] not in SHAPES_ALONE and names.intersection(words_in(read)):
                names.update(words_in([node["to"]]))
        return names

    def boundary(self, good, inside, outside):
        """The last good length between a good and a bad length. There must be only one boundary."""
        while abs(outside - inside) > 1:
            middle = (inside + outside) // 2
            if good(middle):
                inside = middle
            else:
                outside = middle
        return inside

    def check_jointly(self, places):
        """Tries all free sizes together: first the least value of each, then different lengths."""
        names = list(self.ranges)
        for pick in (lambda i, least, length: least, lambda i, least, length: max(least, length - 1 - i)):
            lengths = {place: pick(i, self.ranges[name][0], self.length(places[name]))
                       for i, name in enumerate(names) for place in places[name]}
            if len(names) > 1 and not self.agrees(lengths):
                return set(places[names[-1]])
        return set()

    # ---- One trial

    def agrees(self, lengths):
        """Whether the module runs with these lengths, and the graph gives the same outputs."""
        if any(length < 1 for length in lengths.values()):
            return False
        inputs = self.resized({**lengths, **{place: 2 for place in self.now.sizes.places["batch"]}})
        expected = self.module_outputs(inputs)
        if expected is None:
            return False
        return self.same_outputs(inputs, expected)

    def same_outputs(self, inputs, expected):
        """Whether the graph gives the expected outputs. If not, self.error has the reason."""
        try:
            error = difference(self.graph_outputs(inputs), expected)
        except Exception as error:  # the graph does not run
            self.error = error
            return False
        self.error = f"relative error {error:.1e}"
        return error <= TOLERANCE

    def resized(self, lengths):
        """The example with other lengths. Its rows are repeated, and the end is cut."""
        inputs = dict(self.example)
        for (name, dim), length in lengths.items():
            index = torch.arange(length) % self.tensors[name].shape[dim]
            inputs[name] = inputs[name].index_select(dim, index)
        return inputs

    def module_outputs(self, inputs):
        """The outputs by name, or None if forward() refuses the inputs."""
        copies = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}
        try:
            with torch.no_grad():
                return flat(self.module(**copies))
        except Exception as error:
            self.error = error
            return None

    def graph_outputs(self, inputs):
        tensors = {one["name"]: inputs[one["name"]] for one in self.config["inputs"]}
        by_path = {leaf.path: leaf for leaf in self.found.values()}
        return compute(self.config, self.file, by_path, tensors)


def pinned_symbols(program, hints):
    """Sizes that must be fixed. The trace assumed an equation of them, and the equation does not hold for all values of
    these sizes. For example, an image must have as many patches as there are positions. `hints`: the sizes in the
    example."""
    sizes = [size for node in program.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor)
             for size in node.meta["val"].shape if isinstance(size, torch.SymInt)]
    pinned, env = set(), sizes[0].node.shape_env if sizes else None
    for equation in {env.simplify(guard.expr) for guard in env.guards} if env else ():
        symbols = equation.free_symbols
        if isinstance(equation, sympy.Eq) and symbols <= set(hints) and not symbols <= pinned:
            alone = {symbol for symbol in symbols if fails(program, equation, hints, {symbol})}
            pinned |= alone or (symbols if fails(program, equation, hints, symbols) else set())
    return pinned


def fails(program, equation, hints, varied):
    """Whether an equation fails for some values of the sizes `varied`. The other sizes are those of the example."""
    rng = random.Random(1)
    for _ in range(EQUATION_TRIALS):
        values = {symbol: rng.randint(*limits_of(program, symbol)) if symbol in varied else hints[symbol]
                  for symbol in equation.free_symbols}
        try:
            if equation.subs(values) == sympy.false:
                return True
        except ZeroDivisionError:  # a patch is larger than the image
            return True
    return False


def limits_of(program, symbol):
    limits = program.range_constraints.get(symbol)
    least, most = (2, 500) if limits is None else (max(2, int(limits.lower)), min(limits.upper, 500))
    return least, max(least, int(most))


def described(graph):
    return getattr(graph, "merged", None) or graph.described()


def differing(values):
    """The error for three values that cannot be joined."""
    return LookupError(", ".join(f"{str(value):.80} with {batch}" for value, batch in zip(values, BATCHES)))


def merge(values):
    """Joins three traces with different batches. A number that differs must be a * batch + b."""
    first = values[0]
    if all(value == first for value in values):
        return first
    if isinstance(first, dict) and all(isinstance(one, dict) and list(one) == list(first) for one in values):
        return {key: merge([value[key] for value in values]) for key in first}
    if isinstance(first, list) and all(isinstance(one, list) and len(one) == len(first) for one in values):
        return [merge(list(ones)) for ones in zip(*values)]
    if all(type(value) is int for value in values):
        return merge_numbers(values)
    parts = [re.split(r"(\d+)", str(value)) for value in values]
    if all(isinstance(value, str) for value in values) and len({len(one) for one in parts}) == 1:
        return "".join(one[0] if len(set(one)) == 1 else f"({merge_numbers([int(word) for word in one])})"
                       for one in zip(*parts))
    raise differing(values)


def merge_numbers(values):
    """The expression a * batch + b that gives the three numbers."""
    slope, rest = divmod(values[1] - values[0], BATCHES[1] - BATCHES[0])
    more = values[0] - slope * BATCHES[0]
    if rest or values[2] != slope * BATCHES[2] + more:
        raise differing(values)
    text = "batch" if slope == 1 else f"{slope} * batch"
    return text if not more else f"{text} + {more}" if more > 0 else f"{text} - {-more}"


def differing_constants(graphs):
    """The names of constants that are not the same in all graphs."""
    names = {name: None for graph in graphs for name in graph.made}
    return [name for name in names if any(name not in graph.made for graph in graphs)
            or any(not torch.equal(graphs[0].made[name], graph.made[name]) for graph in graphs[1:])]


SHAPES_ALONE = {"zeros_like", "ones_like", "full_like", "arange", "full", "zeros", "ones"}


def flat(outputs):
    """forward()'s outputs by their names in config.json."""
    from torch.utils import _pytree

    named = {}
    for path, value in _pytree.tree_flatten_with_path(without_names(outputs))[0]:
        if value is not None:
            named[output_name(path)] = value
    return named

