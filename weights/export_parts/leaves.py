"""Finds the parts of a module that are classes of the five libraries, and the arguments of each.

Part of export_module(). A *leaf* is a part whose class linformerd serves. The daemon computes a leaf as a whole, from
its arguments and its tensors. The arguments are read from the attributes of the part, the shapes of its parameters, and
which parameters are shared."""

import inspect
import sys
import warnings

from . import exporter, refuse

ATTENTION, KUIXU, LINEAR_LM = exporter.ATTENTION, exporter.KUIXU, exporter.LINEAR_LM
LINFORMER = "linformer.Linformer"
LINFORMER_LM = "linformer.LinformerLM"
LINFORMER_ATTENTION = "linformer.LinformerSelfAttention"
LINEAR = "linear_attention_transformer.LinearAttentionTransformer"
IMAGE = "linear_attention_transformer.ImageLinearAttention"
PYTORCH = "linformer_pytorch.Linformer"
PYTORCH_LM = "linformer_pytorch.LinformerLM"
ENC_DEC = "linformer_pytorch.LinformerEncDec"

# The tensors that each class accepts, by the names of forward()'s parameters.
MASKED = ["x", "input_mask", "context", "context_mask"]
EMBEDDED = ["tensor", "input_mask", "embeddings", "embeddings_mask"]
INPUTS = {
    LINFORMER_LM: ["x"],
    LINFORMER: ["x"],
    LINFORMER_ATTENTION: ["x", "context"],
    LINEAR_LM: MASKED,
    LINEAR: MASKED,
    IMAGE: ["x", "context"],
    PYTORCH_LM: EMBEDDED,
    PYTORCH: EMBEDDED,
    ATTENTION: EMBEDDED,
    ENC_DEC: ["x", "y", "input_mask", "embeddings_mask"],
}

# The largest length of a LinearAttentionTransformer, if neither the class nor the module sets a limit.
UNLIMITED = 16384

PADDERS = ("Padder", "Autopadder")


class UnreadableArgument(Exception):
    """An argument cannot be read from the part."""


# ---- Which parts are leaves -----------------------------------------------------------------------------------------


def architecture_of(part):
    """The name of the part's class in config.json, or None. A subclass that defines forward() counts as another
    class."""
    for cls in type(part).__mro__:
        file_class = cls.__name__ == KUIXU.rpartition(".")[2]
        architecture = KUIXU if file_class else f"{cls.__module__.partition('.')[0]}.{cls.__name__}"
        if architecture == KUIXU:
            refuse("LinearMultiheadAttention mixes the items of a batch, so it is supported only alone, not within a "
                   "module")
        if architecture in INPUTS:
            return architecture if type(part).forward is cls.forward else None
    return None


def library_class(part):
    """The library's class of which a leaf is an instance."""
    names = {name.rpartition(".")[2] for name in INPUTS}
    return next(cls for cls in type(part).__mro__ if cls.__name__ in names)


class Leaf:
    """A part of the module that the daemon computes as a whole.

        part      the module whose forward() is replaced: an instance of the class, or a padder around one
        inner     the instance of the class
        path      the prefix of the names of the instance's tensors
        kwargs    the arguments of the class, in the form of config.json
        padding   the padding of the padder, or None
        original  forward() of the part"""

    def __init__(self, path, part, given=None):
        self.part, self.inner, self.path, self.padding = part, part, path, None
        if type(part).__name__ in PADDERS:
            self.inner, self.path = part.net, f"{path}.net".lstrip(".")
            self.padding = exporter.WRAPPERS[type(part).__name__][1]
        self.architecture = architecture_of(self.inner)
        self.original, self.signature = part.forward, inspect.signature(self.inner.forward)
        self.kwargs = self.find_kwargs(given or {})

    def find_kwargs(self, given):
        cls = library_class(self.inner)
        kwargs = {name: value for name, value in {**READERS[self.architecture](self.inner), **given}.items()
                  if name in given or not is_default(cls, name, value)}
        checked = {name: UNLIMITED if value is None and name == "max_seq_len" else value
                   for name, value in kwargs.items()}
        exporter.check_library(self.architecture)
        checked = exporter.check_arguments(self.architecture, cls, checked)
        made = exporter.make(self.architecture, cls, checked, self.inner)
        if type(self.inner) is not cls:
            made.__class__ = type(self.inner)
        exporter.compare(made, self.inner, self.architecture)
        exporter.compare_tensors(self.architecture, exporter.torch_tensors(made, keep_vars=True), self.tensors())
        for fault, message in exporter.faults(self.architecture, checked, self.padding or "exact"):
            if fault:
                refuse(f"{self.architecture}: {message}")
        return {**checked, **{name: None for name, value in kwargs.items() if value is None}}

    def tensors(self):
        return exporter.torch_tensors(self.inner)

    def arguments_of(self, args, kwargs):
        """The tensors of a call, by the names in config.json. None if the call has arguments that the daemon's class
        does not have."""
        try:
            given = self.signature.bind(*args, **kwargs).arguments
        except TypeError:
            return None
        for name, parameter in self.signature.parameters.items():
            if parameter.kind == parameter.VAR_KEYWORD:
                given.update(given.pop(name, {}))
        given = {name: value for name, value in given.items()
                 if value is not None}
        if set(given) - set(INPUTS[self.architecture]):
            return None
        if not all(hasattr(value, "new_empty") for value in given.values()):
            return None
        return {name: given[name] for name in INPUTS[self.architecture] if name in given}

    def output_shapes(self, inputs):
        """A shape for each output. Also tells torch.export which lengths the class accepts, and which lengths must be
        equal."""
        return SHAPES[self.architecture](self.inner, inputs, self.padding)


def is_default(cls, name, value):
    parameter = inspect.signature(cls).parameters.get(name)
    return parameter is not None and parameter.default is not parameter.empty and parameter.default == value


def find_leaves(module, arguments):
    """The leaves, by the path of their part. `arguments` are the user's arguments, by path. A part inside a leaf is not
    a leaf."""
    found, left = {}, dict(arguments or {})
    for path, part in module.named_modules():
        if any(path.startswith(f"{outer}." if outer else "") for outer in found):
            continue
        padder = type(part).__name__ in PADDERS and not getattr(part, "pad_left", False)
        if architecture_of(getattr(part, "net", None) if padder else part) is None:
            continue
        given = left.pop(path, None)
        try:
            found[path] = Leaf(path, part, given)
        except (ValueError, UnreadableArgument) as reason:
            if given is not None:
                refuse(f'arguments: part "{path}" ({type(part).__qualname__}): {reason}')
            warnings.warn(f"{path or 'the module'} ({type(part).__qualname__}) is exported operation by operation, "
                          f"and not as one of linformerd's classes: {reason}", stacklevel=4)
    if left:
        refuse(f'arguments: the module has no part "{next(iter(left))}" of a supported class; its parts of such '
               f'classes: {", ".join(found) or "none"}')
    return found


# ---- Arguments, read from the instance ------------------------------------------------------------------------------


def layers_of(sequence):
    """The pairs (f, g) of a sequence of lucidrains' layers, and whether it is reversible."""
    blocks = getattr(sequence, "blocks", None)
    pairs = [tuple(layer) for layer in sequence.layers] if blocks is None else [(b.f.net, b.g.net) for b in blocks]
    if not pairs:
        raise UnreadableArgument("it has no layers")
    return pairs, blocks is not None


def read_linformer_attention(part):
    heads, width = part.heads, part.to_q.out_features
    dim = part.to_q.in_features
    return dict(dim=dim, seq_len=part.seq_len, k=part.k, heads=heads,
                dim_head=None if part.dim_head * heads == dim else part.dim_head,
                one_kv_head=part.to_k.out_features != width, share_kv=part.share_kv)


def read_linformer(part):
    layers, reversible = layers_of(part.net)
    kwargs = read_linformer_attention(layers[0][0].fn)
    return dict(dim=kwargs.pop("dim"), seq_len=kwargs.pop("seq_len"), depth=len(layers), **kwargs, reversible=reversible)


def read_linformer_lm(part):
    return dict(num_tokens=part.token_emb.num_embeddings, **read_linformer(part.linformer))


def read_linear(part):
    """A layer has a pair (attention, feed-forward). If the class attends axially, a pair (axial attention,
    feed-forward) follows. If it receives a context, a pair (attention over the context, feed-forward) follows.
    max_seq_len None: the class has no limit, and does not keep max_seq_len."""
    pairs, reversible = layers_of(part.layers)
    fns = [tuple(unshifted(norm.fn) for norm in pair) for pair in pairs]
    axial = any(type(attention).__name__ == "FoldAxially" for attention, _ in fns)
    context = "context" in part.layers.args_route
    each = 1 + axial + context
    main = [attention for attention, _ in fns[::each]]
    kwargs = dict(dim=pairs[0][0].norm.normalized_shape[0], depth=len(main), max_seq_len=None, heads=main[0].heads,
                  reversible=reversible, receives_context=context, attend_axially=axial,
                  shift_tokens=type(pairs[0][0].fn).__name__ == "PreShiftTokens",
                  pkm_layers=tuple(i + 1 for i, (_, ff) in enumerate(fns[::each]) if type(ff).__name__ == "PKM"))
    if type(main[0]).__name__ == "LinformerSelfAttention":
        kwargs.update(max_seq_len=main[0].seq_len, linformer_settings=dict(k=main[0].k), dim_head=main[0].dim_head)
    else:
        local = [attention.local_attn_heads for attention in main]
        kwargs.update(n_local_attn_heads=local[0] if len(set(local)) == 1 else local, dim_head=main[0].d_heads,
                      local_attn_window_size=main[0].local_attn.window_size)
        if hasattr(main[0].global_attn_fn, "keywords"):
            kwargs.update(causal=True, blindspot_size=main[0].global_attn_fn.keywords["bucket_size"])
    if axial:
        kwargs["local_attn_window_size"] = fns[1][0].axial_dim
    if context and type(fns[each - 1][0]).__name__ == "LinformerSelfAttention":
        over = fns[each - 1][0]
        kwargs["context_linformer_settings"] = dict(seq_len=over.seq_len, k=over.k)
    if each > 1:
        kwargs["ff_glu"] = fns[1][1].fn.glu
    chunks = [ff.chunks for _, ff in fns if type(ff).__name__ == "Chunk"]
    return dict(kwargs, ff_chunks=chunks[0] if chunks else 1)


def unshifted(part):
    return part.fn if type(part).__name__ == "PreShiftTokens" else part


def read_linear_lm(part):
    transformer, emb_dim, positions = part.transformer, part.token_emb.embedding_dim, type(part.pos_emb).__name__
    if type(transformer).__name__ == "ProjectInOut":
        transformer = transformer.fn
    kwargs = dict(read_linear(transformer), num_tokens=part.token_emb.num_embeddings, max_seq_len=part.max_seq_len)
    rotary, axial = positions == "FixedPositionalEmbedding", positions == "AxialPositionalEmbedding"
    if rotary:
        kwargs["dim_head"] = part.layer_pos_emb.emb.shape[1]
    if axial:
        kwargs["local_attn_window_size"] = part.pos_emb.shape[1]
    return dict(kwargs, emb_dim=None if emb_dim == kwargs["dim"] else emb_dim, use_rotary_emb=rotary,
                use_axial_pos_emb=axial or rotary, return_embeddings=type(part.out).__name__ == "Identity")


def read_image(part):
    plain = lambda sizes: sizes if isinstance(sizes, str) else sizes[0] if len(set(sizes)) == 1 else list(sizes)
    return dict(chan=part.chan, chan_out=part.to_out.out_channels, kernel_size=plain(part.to_q.kernel_size),
                padding=plain(part.to_q.padding), stride=plain(part.to_q.stride), key_dim=part.key_dim,
                value_dim=part.value_dim, heads=part.heads, norm_queries=part.norm_queries)


def same(one, other):
    """Whether a projection is shared. It is one module, or equal matrices, because to() copies a shared matrix."""
    if one is other:
        return True
    tensors = not hasattr(one, "parameters") and not hasattr(other, "parameters")
    return tensors and one.shape == other.shape and bool((one == other).all())


def sharing_of(attentions):
    """linformer-pytorch's parameter_sharing, from its MHAttention parts."""
    first = attentions[0].heads
    if not same(first[0].E, first[0].F):
        return "headwise" if len(first) == 1 or same(first[0].E, first[1].E) else "none"
    return "layerwise" if all(same(part.heads[0].E, first[0].E) for part in attentions) else "kv"


def method_of(head):
    return {"Linear": "learnable", "Conv1d": "convolution"}.get(type(head.E).__name__, "no_params")


def read_pytorch_attention(part):
    head = part.heads[0]
    return dict(input_size=part.input_size, dim=head.dim, channels=part.channels, dim_k=part.dim_k,
                nhead=len(part.heads), dropout=head.dropout.p, checkpoint_level=part.checkpoint_level,
                parameter_sharing=sharing_of([part]), full_attention=head.full_attention,
                causal_mask=part.causal_mask is not None, w_o_intermediate_dim=part.w_o_intermediate_dim,
                decoder_mode=part.decoder_mode, method=method_of(head))


def read_pytorch(part):
    attentions = [layer.fn for layer in part.seq if type(layer.fn).__name__ == "MHAttention"]
    feed_forwards = [layer.fn for layer in part.seq if type(layer.fn).__name__ == "FeedForward"]
    if not attentions:
        raise UnreadableArgument("it has no layers")
    encoders = [attention for attention in attentions if not attention.decoder_mode]
    first, masks = encoders[0], [attention.causal_mask for attention in attentions]
    head, dim_ks = first.heads[0], [attention.dim_k for attention in encoders]
    kwargs = dict(input_size=part.input_size, channels=part.channels, dim_k=first.dim_k, nhead=part.nhead,
                  depth=part.depth, checkpoint_level=part.checkpoint_level, parameter_sharing=sharing_of(attentions),
                  k_reduce_by_layer=dim_ks[0] - dim_ks[1] if len(dim_ks) > 1 else 0, full_attention=head.full_attention,
                  include_ff=bool(feed_forwards), w_o_intermediate_dim=first.w_o_intermediate_dim,
                  decoder_mode=part.decoder_mode, causal=any(mask is not None for mask in masks), method=method_of(head))
    if head.dim * part.nhead != part.channels:
        kwargs["dim_d"] = head.dim
    if feed_forwards:
        kwargs["dim_ff"] = feed_forwards[0].w_1.out_features
        kwargs["activation"] = feed_forwards[0].activation.__name__
        if feed_forwards[0].w_2.out_features != part.channels:
            kwargs["ff_intermediate"] = feed_forwards[0].w_2.out_features
    check_masks(part, kwargs, masks)
    return kwargs


def check_masks(part, kwargs, masks):
    library, torch = sys.modules[type(part.seq[0].fn).__module__], sys.modules["torch"]
    for mask in masks:
        if mask is not None:
            own = library.gen_causal_mask(kwargs["input_size"], kwargs["dim_k"], kwargs["full_attention"])
            if own.shape != mask.shape or not torch.equal(own, mask.cpu()):
                raise UnreadableArgument("its causal_mask differs from the mask of the library")


def read_pytorch_lm(part):
    inner = part.linformer if hasattr(part.linformer, "input_size") else part.linformer.fn
    kwargs, emb_dim = read_pytorch(inner), part.to_token_emb.embedding_dim
    return dict(kwargs, num_tokens=part.to_token_emb.num_embeddings, return_emb=not hasattr(part.to_logits, "weight"),
                emb_dim=None if emb_dim == kwargs["channels"] else emb_dim)


def read_enc_dec(part):
    kwargs = {}
    for prefix, side in (("enc_", read_pytorch_lm(part.encoder)), ("dec_", read_pytorch_lm(part.decoder))):
        common = {name: side.pop(name) for name in ("activation", "checkpoint_level") if name in side}
        for name in ("decoder_mode", "causal", "return_emb"):
            side.pop(name)
        kwargs.update({f"{prefix}{name}": value for name, value in side.items()}, **common)
    return kwargs


READERS = {
    LINFORMER_LM: read_linformer_lm,
    LINFORMER: read_linformer,
    LINFORMER_ATTENTION: read_linformer_attention,
    LINEAR_LM: read_linear_lm,
    LINEAR: read_linear,
    IMAGE: read_image,
    PYTORCH_LM: read_pytorch_lm,
    PYTORCH: read_pytorch,
    ATTENTION: read_pytorch_attention,
    ENC_DEC: read_enc_dec,
}


# ---- Shapes of the outputs ------------------------------------------------------------------------------------------


def check(condition):
    sys.modules["torch"]._check(condition, lambda: "the library's class does not accept a length")


def same_rows(one, others, *dims):
    """The tensors must have the same size in each of the dimensions `dims`: 0 is the batch, 1 the length."""
    for other in others:
        if other is not None:
            for i in dims:
                check(other.shape[i] == one.shape[i])


def linformer_shapes(part, inputs, padding):
    x, context = inputs["x"], inputs.get("context")
    same_rows(x, [context], 0)
    inner = getattr(part, "linformer", part)
    seq_len = part.seq_len if hasattr(part, "seq_len") else layers_of(inner.net)[0][0][0].fn.seq_len
    check((x if context is None else context).shape[1] <= seq_len)
    return [(*x.shape, part.to_logits.out_features) if hasattr(part, "to_logits") else tuple(x.shape)]


def linear_shapes(part, inputs, padding):
    x, context = inputs["x"], inputs.get("context")
    same_rows(x, [inputs.get("input_mask")], 0, 1)
    same_rows(x, [context], 0)
    if context is not None:
        same_rows(context, [inputs.get("context_mask")], 0, 1)
    model = hasattr(part, "token_emb")
    kwargs = (read_linear_lm if model else read_linear)(part)
    if kwargs["max_seq_len"] is not None:
        check(x.shape[1] <= kwargs["max_seq_len"])
    if context is not None and kwargs.get("context_linformer_settings"):
        check(context.shape[1] <= kwargs["context_linformer_settings"]["seq_len"])
    width = part.token_emb.embedding_dim if model and kwargs["return_embeddings"] else kwargs.get("num_tokens")
    return [(*x.shape, width) if model else tuple(x.shape)]


def image_shapes(part, inputs, padding):
    batch, _, height, width = inputs["x"].shape
    return [(batch, part.to_out.out_channels, height, width)]


def pytorch_shapes(part, inputs, padding):
    x, size = inputs["tensor"], part.input_size
    others = [inputs.get(name) for name in ("input_mask", "embeddings", "embeddings_mask")]
    same_rows(x, others, 0, 1)
    check(x.shape[1] <= size if padding == "zero" or hasattr(part, "mh_dropout") else x.shape[1] == size)
    if hasattr(part, "mh_dropout") and not part.heads[0].full_attention:
        check(x.shape[1] == size)
    return [(*x.shape, model_width(part)) if hasattr(part, "to_token_emb") else tuple(x.shape)]


def model_width(part):
    """The number of features in the output of a linformer_pytorch.LinformerLM."""
    return part.to_logits.out_features if hasattr(part.to_logits, "weight") else part.to_token_emb.embedding_dim


def enc_dec_shapes(part, inputs, padding):
    x, y = inputs["x"], inputs.get("y", inputs["x"])
    same_rows(x, [y], 0)
    same_rows(x, [inputs.get("input_mask"), inputs.get("embeddings_mask")], 0, 1)
    check(x.shape[1] == part.encoder.input_size)
    check(y.shape[1] == part.decoder.input_size)
    return [(*y.shape, model_width(part.decoder))]


SHAPES = {
    LINFORMER_LM: linformer_shapes,
    LINFORMER: linformer_shapes,
    LINFORMER_ATTENTION: linformer_shapes,
    LINEAR_LM: linear_shapes,
    LINEAR: linear_shapes,
    IMAGE: image_shapes,
    PYTORCH_LM: pytorch_shapes,
    PYTORCH: pytorch_shapes,
    ATTENTION: pytorch_shapes,
    ENC_DEC: enc_dec_shapes,
}
