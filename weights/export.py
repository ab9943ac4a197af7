"""Saves a model of one of the five Linformer libraries as a folder that linformerd serves.

    from linformer import LinformerLM
    from export import export

    kwargs = dict(num_tokens=20000, dim=64, seq_len=256, depth=2, k=32)
    model = LinformerLM(**kwargs)              # and train it
    export(model, kwargs, "mine")              # then: linformerd --model mine

`kwargs` are the arguments that the class was made with. export(model, kwargs, folder, **config) writes config.json and
model.safetensors. If it fails, it writes nothing. `config` are optional keys of config.json: name, pooling, normalize,
padding, tokenizer, auto_truncate, eos_token, bos_token, pad_token, generation, ignore, prompts, default_prompt. A
tensor is not written if the class does not have it and a pattern of `ignore` matches its name. This file needs Python
3.8, numpy and the library of the model. It needs no other file of linformerd, so you may copy it next to your own
files.

`tokenizer` makes the model accept texts. It is the tokenizer that the model was trained with: a tokenizers.Tokenizer, a
fast tokenizer of transformers, or the path of a tokenizer.json. It becomes tokenizer.json beside config.json:

    export(model, kwargs, "mine", tokenizer=tokenizers.Tokenizer.from_file("tokenizer.json"))

The values {"type": "byte"} and None are written into config.json instead. Without `tokenizer`, a tokenizer.json in the
folder stays as it is.

Models: the classes of `linformer`, `linear-attention-transformer` and `linformer-pytorch`, LinearMultiheadAttention
(github.com/kuixu/Linear-Multihead-Attention) and Keras' LinearMultiHeadAttention (github.com/dholland42/linformer),
alone or behind an Embedding. A pair of LinearAttentionTransformerLM, encoder and decoder, is a tuple:

    export((encoder, decoder), {"enc": encoder_kwargs, "dec": decoder_kwargs}, "translator")

The model may be inside Padder, Autopadder, AutoregressiveWrapper, DataParallel, DistributedDataParallel, AveragedModel
or torch.compile's wrapper. The padders set `padding`.

A module of your own that contains these classes needs no kwargs. It needs an example, which is a batch of at least 2:

    export_module(module, {"ids": torch.randint(0, 100, (2, 16))}, "mine", labels=["bad", "good"])

export_module() needs torch (tested with 2.13), and the folder export_parts beside this file. Its docstring describes
its arguments.

A ValueError names what cannot be served. This may be an argument or a part that the library or linformerd cannot run,
or kwargs that do not make the model. To find these, export() makes the class again from the kwargs, and compares it
with the model. If linformerd is on PATH, it reads the model before the folder gets its name.
daemon="path/to/linformerd" names another binary. daemon=False skips this check."""

import contextlib
import importlib.metadata
import inspect
import itertools
import json
import math
import numbers
import os
import pathlib
import re
import secrets
import shutil
import struct
import subprocess
import sys

import numpy

LINEAR_LM = "linear_attention_transformer.LinearAttentionTransformerLM"
PAIR = "linear_attention_transformer.EncoderDecoder"
ATTENTION = "linformer_pytorch.MHAttention"
KUIXU = "linear_multihead_attention.LinearMultiheadAttention"
KERAS = "linformer.attention.LinearMultiHeadAttention"

# The first padding of a class is its default. With the argument linformer_settings, "slice" comes before the paddings
# of this list. With the argument decoder_mode, the paddings are "exact" and "zero", and "exact" is the default.
PADDINGS = {
    "linformer.LinformerLM": ["slice", "exact"],
    "linformer.Linformer": ["slice", "exact"],
    "linformer.LinformerSelfAttention": ["slice", "exact"],
    LINEAR_LM: ["autopad", "exact"],
    "linear_attention_transformer.LinearAttentionTransformer": ["autopad", "exact"],
    PAIR: ["autopad", "exact"],
    "linear_attention_transformer.ImageLinearAttention": ["exact"],
    "linformer_pytorch.LinformerLM": ["zero", "masked", "exact"],
    "linformer_pytorch.Linformer": ["zero", "masked", "exact"],
    ATTENTION: ["exact"],
    "linformer_pytorch.LinformerEncDec": ["exact", "zero"],
    KUIXU: ["exact"],
    KERAS: ["exact"],
}

# The attribute in which a wrapper keeps its model, and the `padding` that the wrapper means.
WRAPPERS = {
    "Padder": ("net", "zero"),
    "Autopadder": ("net", "autopad"),
    "AutoregressiveWrapper": ("net", None),
    "DataParallel": ("module", None),
    "DistributedDataParallel": ("module", None),
    "AveragedModel": ("module", None),
    "OptimizedModule": ("_orig_mod", None),
}

# Kinds of arguments.
# TRAINING: do not change the results of a trained model.
# MODULES: modules. They are not in config.json, because MHAttention's tensors are in the state_dict.
# KERAS_LAYER: arguments of Keras' base class.
# FLAGS: true or false, though their default is neither.
# OR_NONE: may be None, though their default is not None.
# FROM_ZERO, FROM_ANYWHERE: integers from 0, or of any sign. All other integers start at 1.
# CHOICES: names. The lists have all valid names.
TRAINING = {"pkm_num_keys", "bucket_size", "name", "trainable", "dtype", "kernel_initializer",
            "bias_initializer", "kernel_regularizer", "bias_regularizer", "activity_regularizer", "kernel_constraint",
            "bias_constraint"}
MODULES = {"E_proj", "F_proj"}
KERAS_LAYER = {"name", "trainable", "dtype"}
FLAGS = {"full_attention", "causal_mask"}
OR_NONE = {"dim_head", "param_sharing"}
FROM_ZERO = ("depth", "n_local_attn_heads", "blindspot_size", "padding", "value_dim", "projection_dim")
FROM_ANYWHERE = ("pkm_layers", "attention_axes", "k_reduce_by_layer")
CHOICES = {
    "parameter_sharing": ["none", "headwise", "kv", "layerwise"],
    "method": ["learnable", "convolution", "no_params"],
    "activation": ["gelu", "relu"],
    "checkpoint_level": ["C0", "C1", "C2"],
}

CONFIG_KEYS = ["name", "pooling", "normalize", "padding", "tokenizer", "auto_truncate", "eos_token", "bos_token",
               "pad_token", "generation", "ignore", "prompts", "default_prompt"]
BYTE_TOKENIZERS = [{"type": "byte"}, {"type": "byte", "offset": 0}, {"type": "byte", "offset": 3}]

# The oldest versions that compute the same as linformerd. Older versions differ: linformer 0.2.2 has no bias after its
# attention. linear-attention-transformer 0.19.0 has another eps in causal attention. linformer-pytorch 0.19.0 masks
# with -1e10 instead of -inf.
OLDEST = {"linformer": "0.2.3", "linear_attention_transformer": "0.19.1", "linformer_pytorch": "0.19.1"}

MAX_PIXELS = 65536  # largest number of pixels of an image that is tried
DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
ALL_DTYPES = {**DTYPES, "int64": "I64", "int32": "I32", "bool": "BOOL"}  # constants of a module also have these dtypes
BITS = {"F64": 64, "I64": 64, "F32": 32, "I32": 32, "F16": 16, "BF16": 16, "BOOL": 8}


def refuse(message):
    raise ValueError(message)


def export(model, kwargs, folder, *, daemon=None, **config):
    """Writes `folder`/config.json and `folder`/model.safetensors, and with `tokenizer` also tokenizer.json. The
    docstring of this file describes the arguments."""
    config, tokenizer = take_tokenizer(config)
    config = {key: plain(value, key) for key, value in config.items()}
    ignore = check_ignore(config.get("ignore", []))
    if isinstance(model, (tuple, list)):
        architecture, kwargs, tensors, padding = read_pair(model, kwargs, ignore)
    else:
        model, padding = unwrap(model)
        architecture = find_architecture(model)
        if architecture == KERAS:
            kwargs, tensors = read_keras(architecture, model, kwargs)
        else:
            kwargs, tensors = read_torch(architecture, model, kwargs, ignore)
    if padding:
        config.setdefault("padding", padding)
    check_config(architecture, kwargs, config, tensors)
    check_vocabulary(tokenizer or config.get("tokenizer"), vocabulary_of(architecture, kwargs, tensors))
    text = json.dumps({"architecture": architecture, "kwargs": kwargs, **config}, indent=1, allow_nan=False) + "\n"
    write_folder(pathlib.Path(folder), text, tensors, daemon, tokenizer=tokenizer)


def export_module(module, example, folder, *, arguments=None, daemon=None, **config):
    """Writes `folder`/config.json with the module as a graph, and `folder`/model.safetensors with its tensors.

    `example` has tensors by the names of forward()'s parameters. Their first dimension is the batch, of at least 2. The
    batch may have any size in a request. Any other dimension may also vary, if the module runs with other lengths. The
    exporter finds the shortest and the longest length by trials. `config` are further keys of config.json, such as
    labels and image. One of these keys is `tokenizer`, which has the same meaning as in export().

    A part of one of the libraries' classes becomes one node. Its arguments are read from the instance. `arguments`
    overrides them, by the path of the part: {"encoder": {"max_seq_len": 512}}. A class that was changed is exported
    operation by operation, with a warning. The graph is compared with the module before it is written.

    A ValueError names what cannot be served, and the line of forward(). These cases are refused:

    - a path that depends on values
    - an operation that linformerd does not have
    - dropout or batch statistics in eval mode
    - a result that depends on the other items of its batch

    If linformerd is on PATH, or named by LINFORMERD or `daemon`, it reads the folder before the folder gets its
    name."""
    here = str(pathlib.Path(__file__).resolve().parent)
    if not os.path.isdir(os.path.join(here, "export_parts")):
        refuse(f"export_module: the folder export_parts is missing in {here}: copy it there with export.py")
    sys.path.insert(0, here)
    try:
        parts = importlib.import_module(f"{__package__ or ''}.export_parts.module".lstrip("."))
    finally:
        sys.path.remove(here)
    parts.export_module(module, example, folder, arguments=arguments, daemon=daemon, **config)


# ---- Models ---------------------------------------------------------------------------------------------------------


def unwrap(model):
    """The model inside the wrappers, and the padding that a padder among the wrappers means."""
    padding = None
    while type(model).__name__ in WRAPPERS:
        attribute, wrapper_padding = WRAPPERS[type(model).__name__]
        if getattr(model, "pad_left", False):
            refuse("Autopadder with pad_left is not supported: linformerd pads on the right")
        padding = wrapper_padding or padding
        model = getattr(model, attribute)
    return model, padding


def find_architecture(model):
    """The name of the class in config.json. Two libraries are single files, so their classes are recognised by the name
    of the class alone."""
    if isinstance(model, dict):
        refuse("a state_dict contains tensors, but no class: make the model with its kwargs, call its load_state_dict(), "
               "and export the model")
    cls, layers = type(model), getattr(model, "layers", None)
    files = {architecture.rpartition(".")[2]: architecture for architecture in (KUIXU, KERAS)}
    if cls.__name__ in files:
        return files[cls.__name__]
    if isinstance(layers, list) and any(type(layer).__name__ == KERAS.rpartition(".")[2] for layer in layers):
        return KERAS
    architecture = f"{cls.__module__.partition('.')[0]}.{cls.__name__}"
    if architecture not in PADDINGS or architecture == PAIR:
        refuse(f"{cls.__module__}.{cls.__qualname__} is not supported; expected one of {', '.join(PADDINGS)}")
    return architecture


def read_torch(architecture, model, kwargs, ignore, prefix=""):
    """kwargs for config.json, and the tensors by name. Refuses kwargs that do not make this model. `prefix` stands
    before the names of the tensors in the file."""
    check_library(architecture)
    check_quantised(architecture, model)
    if architecture == ATTENTION:
        kwargs = attention_kwargs(model, kwargs)
    kwargs, tensors = check_arguments(architecture, type(model), kwargs), torch_tensors(model)
    made = make(architecture, type(model), kwargs, model)
    compare(made, model, architecture)
    made_tensors = torch_tensors(made, keep_vars=True)
    tensors = {name: tensor for name, tensor in tensors.items()
               if name in made_tensors or not ignored(prefix + name, ignore)}
    compare_tensors(architecture, made_tensors, tensors)
    return kwargs, tensors


def check_library(architecture):
    """Refuses older versions. They compute something else under the same names, or lack an argument."""
    package = architecture.partition(".")[0]
    oldest = OLDEST.get(package, "0")
    try:
        version = importlib.metadata.version(package.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:  # a copy of the library's files has no version
        return
    numbers_of = lambda text: [int(number) for number in re.findall("[0-9]+", text)]
    if numbers_of(version) < numbers_of(oldest):
        refuse(f"{architecture}: {package} {version} is installed, but linformerd supports models of {oldest} and "
               "later: make the model with a newer version and load the state_dict there")


def check_quantised(architecture, model):
    for path, part in model.named_modules():
        kind = f"{type(part).__module__}.{type(part).__qualname__}"
        if re.search("quanti[sz]|[.]qat[.]|bitsandbytes", kind):
            refuse(f"{architecture}: {path or 'the model'} is quantised ({kind}): "
                   "export the model before it is quantised")


def read_pair(models, kwargs, ignore):
    """Reads two LinearAttentionTransformerLM. The second one reads the output of the first one."""
    if len(models) != 2 or not isinstance(kwargs, dict) or set(kwargs) != {"enc", "dec"}:
        refuse('expected a pair (encoder, decoder) with kwargs {"enc": …, "dec": …}')
    found, tensors, paddings = {}, {}, set()
    for side, model in zip(("enc", "dec"), models):
        model, padding = unwrap(model)
        paddings.add(padding)
        if find_architecture(model) != LINEAR_LM:
            refuse(f"{side}: expected a {LINEAR_LM}, found {find_architecture(model)}. For linformer-pytorch, export "
                   "a LinformerEncDec, and load the two state_dicts into its encoder and decoder")
        found[side], side_tensors = read_torch(LINEAR_LM, model, kwargs[side], ignore, f"{side}.")
        tensors.update({f"{side}.{name}": tensor for name, tensor in side_tensors.items()})
    return PAIR, found, tensors, "autopad" if "autopad" in paddings else None


def torch_tensors(model, **options):
    """The tensors of state_dict(), and E and F of linformer-pytorch's heads. With method="no_params", state_dict()
    lacks these."""
    tensors = dict(model.state_dict(**options))
    for path, module in model.named_modules():
        if type(module).__name__ == "LinearAttentionHead":
            for name in ("E", "F"):
                if isinstance(getattr(module, name), sys.modules["torch"].Tensor):
                    tensors[f"{path}.{name}"] = getattr(module, name)
    return tensors


def read_keras(architecture, model, kwargs):
    """Reads the layer alone, or an Embedding and the layer, as in the library's entrypoint. Names of tensors begin
    after the name of the layer."""
    layers = [layer for layer in getattr(model, "layers", [model]) if type(layer).__name__ != "InputLayer"]
    layer, kinds = layers[-1], [type(layer).__name__ for layer in layers]
    name = architecture.rpartition(".")[2]
    if kinds not in ([name], ["Embedding", name]) or (model is not layer and len(model.inputs) != 1):
        refuse(f"{architecture}: expected the layer alone, or a model of one input, an Embedding and the layer, "
               f"found {', '.join(kinds)}")
    if not layer.weights:
        refuse(f"{architecture}: the layer has no weights yet; call it once")
    kwargs = check_arguments(architecture, type(layer), kwargs)
    kwargs.pop("dtype", None)  # the tensors have a dtype themselves
    made, found = type(layer)(**python_arguments(type(layer), kwargs)).get_config(), layer.get_config()
    for key in ("num_heads", "key_dim", "value_dim", "projection_dim", "use_bias", "output_shape"):
        expected, has = (list(one[key]) if hasattr(one[key], "__len__") else one[key] for one in (made, found))
        if (expected or None) != (has or None):
            refuse(f"{architecture}: argument {key}: these kwargs result in {expected!r}, but the layer has {has!r}")
    if kwargs.get("attention_axes") not in (None, 1, [1]) or len(found["query_shape"]) != 3:
        refuse(f"{architecture}: only attention over axis 1 of (batch, length, features) is supported")
    tensors = {}
    for owner in layers:
        for weight in owner.weights:
            path = weight.name.partition(":")[0].split("/")
            tensors["/".join(path[-2:] if owner is layer else ["embedding", path[-1]])] = weight.numpy()
    return kwargs, tensors


# ---- Arguments ------------------------------------------------------------------------------------------------------


def plain(value, where):
    """The value for JSON. Tuples become lists, namedtuples become objects, and numbers of numpy and torch become plain
    numbers."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): plain(item, where) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item, where) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist(), where)
    return refuse(f"{where}: {value!r:.80} cannot be written to config.json")


def check_arguments(architecture, cls, kwargs):
    """kwargs for config.json. Refuses an argument that the class lacks, or whose kind linformerd cannot use."""
    if not isinstance(kwargs, dict):
        refuse(f"{architecture}: kwargs: expected a dict of the class's arguments, found {type(kwargs).__name__}")
    parameters = {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()
                  if parameter.kind != parameter.VAR_KEYWORD and name not in MODULES}
    checked = {}
    for name, value in kwargs.items():
        where = f"{architecture}: argument {name}"
        if name not in parameters and not (architecture == KERAS and name in KERAS_LAYER):
            refuse(f'{architecture}: unknown argument "{name}"; the class has {", ".join(parameters)}')
        if name in TRAINING:
            with contextlib.suppress(ValueError):  # a regularizer, for example, cannot be JSON, and changes no result
                checked[name] = plain(value, where)
        elif isinstance(parameters[name], bool) or name in FLAGS:
            value = plain(value, where)
            checked[name] = bool(value) if value in (None, 0, 1) else refuse(
                f"{where}: expected true or false, found {value!r}")
        elif value is None and parameters[name] is not None and name not in OR_NONE:
            refuse(f"{where}: expected a value, found None")
        else:
            checked[name] = check_value(where, name, plain(value, where))
    for name, default in parameters.items():
        if default is inspect.Parameter.empty and name not in kwargs:
            refuse(f"{architecture}: argument {name} is missing")
    return checked


def check_value(where, name, value):
    if isinstance(value, list):
        return [check_value(where, name, item) for item in value]
    if isinstance(value, dict):
        return {key: check_value(where, key, item) for key, item in value.items()}
    choices = CHOICES.get(name[4:] if name.startswith(("enc_", "dec_")) else name)
    if choices and value not in choices:
        refuse(f"{where}: expected one of {choices}, found {value!r}")
    if "dropout" in name:
        return +value if isinstance(value, (int, float)) and 0 <= value <= 1 else refuse(
            f"{where}: expected a number from 0 to 1, found {value!r}")
    if isinstance(value, str) or value is None:
        return value
    least = -(2**31) if name.endswith(FROM_ANYWHERE) else 0 if name.endswith(FROM_ZERO) else 1
    if value != int(value) or not least <= value < 2**31:
        refuse(f"{where}: expected an integer from {least} to {2**31 - 1}, found {value!r}")
    return int(value)


def attention_kwargs(model, kwargs):
    """MHAttention's kwargs without modules and tensors. E_proj and F_proj are in the state_dict, and `method` gives
    their kind. causal_mask must be the library's own mask, which becomes true, or None, which becomes false."""
    kwargs = {name: value for name, value in dict(kwargs or {}).items() if name not in MODULES}
    if not len(model.heads):
        refuse(f"{ATTENTION}: argument nhead: expected an integer from 1 to {2**31 - 1}, found {kwargs.get('nhead')!r}")
    head, mask, library = model.heads[0], model.causal_mask, sys.modules[type(model).__module__]
    if mask is not None:
        expected = library.gen_causal_mask(model.input_size, model.dim_k, head.full_attention)
        if not sys.modules["torch"].equal(expected, mask.cpu()):
            refuse(f"{ATTENTION}: causal_mask: expected gen_causal_mask(input_size, dim_k, full_attention), or None")
    kwargs["causal_mask"] = mask is not None
    if kwargs.get("parameter_sharing") == "layerwise":
        kinds = {"Linear": "learnable", "Conv1d": "convolution"}
        kwargs["method"] = kinds.get(type(head.E).__name__, "no_params")
    return kwargs


def check_config(architecture, kwargs, config, tensors):
    """Refuses a wrong key of config.json, and a model that has a fault with its padding."""
    sides = [kwargs["enc"], kwargs["dec"]] if architecture == PAIR else [kwargs]
    paddings = PADDINGS[architecture]
    if all(side.get("linformer_settings") for side in sides):
        paddings = ["slice", *paddings]
    if kwargs.get("decoder_mode"):
        paddings = ["exact", "zero"]
    padding = config.get("padding", paddings[0])
    for fault, message in faults(architecture, kwargs, padding):
        if fault:
            refuse(f"{architecture}: {message}")
    prompts = config.get("prompts")
    for key, accepted, expected in (
        ("name", isinstance(config.get("name"), str) and "/" not in (config["name"] or "/"), "a name without a slash"),
        ("pooling", config.get("pooling") in ("mean", "cls", "last", "max"), "mean, cls, last or max"),
        ("normalize", isinstance(config.get("normalize"), bool), "true or false"),
        ("padding", padding in paddings, f"{' or '.join(paddings)} for {architecture} with these kwargs"),
        ("auto_truncate", isinstance(config.get("auto_truncate"), bool), "true or false"),
        *((key, is_id(config.get(key)), "an id: an integer of at least 0")
          for key in ("eos_token", "bos_token", "pad_token")),
        ("generation", are_generation_settings(config.get("generation")),
         "a dict with do_sample, temperature, top_k, top_p, min_p or repetition_penalty, each in its range"),
        ("prompts", are_prompts(prompts), "a dict of texts by their names"),
        ("default_prompt", config.get("default_prompt") in list(prompts or ()), "a name from prompts"),
    ):
        if key in config and not accepted:
            refuse(f"{key}: expected {expected}, found {config[key]!r}")
    unknown = sorted(set(config) - set(CONFIG_KEYS))
    if unknown:
        refuse(f'unknown key "{unknown[0]}"; expected one of {", ".join(CONFIG_KEYS)}')


def are_generation_settings(value):
    """The same checks as in config/generation_settings.c."""
    def is_number(number):
        return isinstance(number, (int, float)) and not isinstance(number, bool)
    valid = {
        "do_sample": lambda given: isinstance(given, bool),
        "temperature": lambda given: is_number(given) and given > 0,
        "top_k": lambda given: is_id(given),
        "top_p": lambda given: is_number(given) and 0 < given <= 1,
        "min_p": lambda given: is_number(given) and 0 <= given <= 1,
        "repetition_penalty": lambda given: is_number(given) and given > 0,
    }
    return isinstance(value, dict) and all(name in valid and valid[name](given) for name, given in value.items())


def is_id(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def are_prompts(prompts):
    return isinstance(prompts, dict) and all(prompts) and all(isinstance(text, str) for text in prompts.values())


def check_ignore(patterns):
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) and pattern for pattern in patterns):
        refuse(f"ignore: expected a list of tensor names, in which * matches any characters, found {patterns!r}")
    return patterns


def ignored(name, patterns):
    """Whether a pattern matches, as in linformerd: * stands for any number of characters, including none."""
    return any(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) for pattern in patterns)


# ---- Tokenizers -----------------------------------------------------------------------------------------------------


def take_tokenizer(config):
    """If `tokenizer` becomes a file: config without `tokenizer`, and the bytes of tokenizer.json. Otherwise: config,
    and None."""
    tokenizer = config.get("tokenizer")
    if isinstance(tokenizer, dict) and tokenizer not in BYTE_TOKENIZERS:
        refuse(f'tokenizer: expected {{"type": "byte"}}, optionally with "offset": 0, found {tokenizer!r}')
    if tokenizer is None or isinstance(tokenizer, dict):
        return config, None
    if isinstance(tokenizer, (str, os.PathLike)):
        try:
            content = pathlib.Path(tokenizer).read_bytes()
        except OSError as error:
            refuse(f"tokenizer: expected a tokenizers.Tokenizer, a fast tokenizer of transformers, "
                   f"or the path of a tokenizer.json. The file cannot be read: {error}")
    else:
        content = serialised(tokenizer).encode()
    return {key: value for key, value in config.items() if key != "tokenizer"}, content


def serialised(tokenizer):
    """The tokenizer.json of a tokenizers.Tokenizer, or of the Tokenizer inside a fast tokenizer of transformers."""
    kind = f"{type(tokenizer).__module__}.{type(tokenizer).__qualname__}"
    if getattr(tokenizer, "is_fast", True) is False:
        refuse(f"tokenizer: {kind} is a slow tokenizer of transformers: it is Python code, and has no tokenizer.json. "
               "Use a fast one: AutoTokenizer returns it if it exists; otherwise train one with `tokenizers`")
    tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not callable(getattr(tokenizer, "to_str", None)):
        refuse("tokenizer: expected a tokenizers.Tokenizer, a fast tokenizer of transformers, the path of a "
               f"tokenizer.json, or {{\"type\": \"byte\"}}; found {kind}")
    try:
        return tokenizer.to_str(pretty=True)
    except Exception as error:  # some part of the tokenizer is Python code
        return refuse(f"tokenizer: {kind} cannot be written as tokenizer.json: {error}")


def count_ids(tokenizer):
    """The largest id of a tokenizer, plus 1. `tokenizer`: the bytes of a tokenizer.json, or the value in
    config.json."""
    if isinstance(tokenizer, dict):
        return 256 + tokenizer.get("offset", 3)
    try:
        document = json.loads(tokenizer.decode())
        vocabulary = document["model"]["vocab"]
        ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))  # a list for Unigram
        added = [token["id"] for token in document.get("added_tokens") or []]
        return max(itertools.chain(ids, added), default=-1) + 1
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        return refuse(f"tokenizer: the file is not a valid tokenizer.json: {type(error).__name__}: {error}")


def check_vocabulary(tokenizer, vocabulary):
    """Refuses a tokenizer with more ids than the model accepts. `vocabulary`: the number of ids of the model. 0: it
    accepts no ids. None: unknown."""
    if not tokenizer or vocabulary is None:
        return
    n_ids = count_ids(tokenizer)
    if not vocabulary:
        refuse("tokenizer: the model accepts no ids, so it cannot use a tokenizer")
    if n_ids > vocabulary:
        refuse(f"tokenizer: expected a model that accepts {n_ids} ids (num_tokens), because the tokenizer makes ids up "
               f"to {n_ids - 1}; found a model that accepts {vocabulary}")


def vocabulary_of(architecture, kwargs, tensors):
    """The number of ids that the first input may contain. 0: the first input has no ids."""
    if architecture == PAIR:
        return kwargs["enc"]["num_tokens"]
    return kwargs.get("num_tokens", kwargs.get("enc_num_tokens", len(tensors.get("embedding/embeddings", []))))


# ---- Models that the classes make but cannot run, or that linformerd cannot run -------------------------------------


def faults(architecture, kwargs, padding):
    """Yields pairs: whether the model has the fault, and the message of the fault."""
    package, _, name = architecture.partition(".")
    if architecture == PAIR:
        encoder, decoder = (with_defaults(LINEAR_LM, kwargs[side]) for side in ("enc", "dec"))
        width = (encoder["emb_dim"] or encoder["dim"]) if encoder["return_embeddings"] else encoder["num_tokens"]
        yield encoder["receives_context"], "enc has receives_context, but an encoder receives no context"
        yield (decoder["receives_context"] and width != decoder["dim"],
               f"the encoder returns {width} features; the decoder expects a context of dim {decoder['dim']}")
        yield from linear_faults(encoder, padding)
        yield from linear_faults(decoder, padding)
    elif name in ("LinearAttentionTransformerLM", "LinearAttentionTransformer"):
        yield from linear_faults(with_defaults(architecture, kwargs), padding)
    elif name == "ImageLinearAttention":
        yield from image_faults(with_defaults(architecture, kwargs))
    elif name == "LinformerEncDec":
        encoder, decoder = (side_of(with_defaults(architecture, kwargs), prefix) for prefix in ("enc_", "dec_"))
        yield from pytorch_faults(encoder)
        decoder.update(decoder_mode=True, causal=True)
        yield from pytorch_faults(decoder)
        yield encoder["input_size"] != decoder["input_size"], "enc_input_size and dec_input_size must be the same"
        yield ((encoder["emb_dim"] or encoder["channels"]) != decoder["channels"],
               "the encoder's width (enc_emb_dim, or enc_channels) must equal dec_channels")
    elif package == "linformer_pytorch":
        yield from pytorch_faults(with_defaults(architecture, kwargs))
    elif architecture == KUIXU:
        yield (kwargs.get("add_bias_kv") and kwargs.get("seq_len") == 1,
               "add_bias_kv uses seq_len - 1 keys, so seq_len must be at least 2")
    elif architecture == KERAS:
        sizes = kwargs.get("output_shape")
        yield isinstance(sizes, list) and len(sizes) > 3, "output_shape: expected at most 3 sizes"


class Arguments(dict):
    """A class's arguments by name. Arguments that kwargs leave out have the class's defaults."""

    def __init__(self, architecture, values):
        super().__init__(values)
        self.architecture = architecture

    def __missing__(self, name):
        refuse(f"{self.architecture}: the class has no argument {name}: this version of the library is older than "
               "those that linformerd supports. Make the model with a newer version and load the state_dict there")


def with_defaults(architecture, kwargs):
    package, _, name = architecture.partition(".")
    parameters = inspect.signature(getattr(sys.modules[package], name)).parameters
    return Arguments(architecture, {**{name: one.default for name, one in parameters.items()}, **kwargs})


def side_of(arguments, prefix):
    """The arguments of LinformerEncDec's encoder or decoder, with the names of LinformerLM's arguments."""
    side = {name[4:]: value for name, value in arguments.items() if name.startswith(prefix)}
    return Arguments(arguments.architecture, {**arguments, "decoder_mode": False, "causal": False, **side})


def linear_faults(a, padding):
    """The faults of a transformer. `a`: the arguments of LinearAttentionTransformer or LinearAttentionTransformerLM."""
    window, linformer, language_model = a["local_attn_window_size"], a["linformer_settings"], "num_tokens" in a
    most, rotary, emb_dim = a["max_seq_len"], a.get("use_rotary_emb"), a.get("emb_dim") or a["dim"]
    fewest = 2 if a["causal"] else 3
    yield a["shift_tokens"] and a["dim"] < fewest, f"shift_tokens needs a dim of at least {fewest}"
    yield rotary and emb_dim % 2, "use_rotary_emb needs an even emb_dim"
    yield rotary and not linformer and a["dim_head"] % 2, "use_rotary_emb needs an even dim_head"
    yield (rotary and a["attend_axially"] and a["depth"]
           and (window != 1 or a["dim"] // a["heads"] != a["dim_head"]),
           f"use_rotary_emb with attend_axially: expected local_attn_window_size 1 and dim_head {a['dim'] // a['heads']}, "
           f"which is dim / heads; found {window} and {a['dim_head']}")
    yield a.get("return_embeddings") and emb_dim != a["dim"], "return_embeddings needs emb_dim to equal dim"
    if a.get("use_axial_pos_emb") and not rotary and not (linformer and a["depth"]):
        most = -(-most // window) * window
    heads = a["n_local_attn_heads"]
    local = any(heads) if isinstance(heads, list) else heads and a["depth"]
    multiple = int(numpy.lcm(a["blindspot_size"] or 1 if a["causal"] else 1, window if local else 1))
    yield (padding == "autopad" and (language_model or linformer and a["depth"]) and multiple > most,
           f"sequences are padded to multiples of {multiple}, which exceeds max_seq_len {most}")


def image_faults(a):
    """The faults of an image attention. `a`: the arguments of ImageLinearAttention."""
    lists = {name: a[name] if isinstance(a[name], list) else [a[name]] * 2
             for name in ("kernel_size", "stride", "padding") if not isinstance(a[name], str)}
    for name, sizes in lists.items():
        fewest = 2 if name == "kernel_size" else 1
        yield not fewest <= len(sizes) <= 2, f"{name}: expected one integer, or one each for height and width"
    yield not a["value_dim"], "value_dim must be at least 1"
    kernel, stride = lists["kernel_size"], lists["stride"] * 2
    around = [size - 1 if a["padding"] == "same" else 0 for size in kernel]
    if "padding" in lists:
        around = [2 * zeros for zeros in (lists["padding"] * 2)[:2]]
    # For direction d, made[d] maps n pixels to the number of pixels that the first convolutions make of them. Its keys
    # are the n of which the last convolution makes at least one pixel.
    made = [{n: (n + more - size) // step + 1 for n in range(max(1, size - more), MAX_PIXELS + 1)}
            for size, more, step in zip(kernel, around, stride)]
    yield (not any(height * made[1].get(width, 0) == n * width for n, height in made[0].items()
                   for width in range(1, MAX_PIXELS // n + 1)),
           "with this kernel_size, padding and stride, no image keeps its number of pixels, as the class requires")


def pytorch_faults(a):
    """The faults of a model of linformer-pytorch. `a`: the arguments of Linformer, LinformerLM or MHAttention."""
    size, dim_k, depth = a["input_size"], a["dim_k"], a.get("depth", 1)
    convolution, causal = a["method"] == "convolution", a.get("causal") or a.get("causal_mask")
    reduced = 0 if a["parameter_sharing"] == "layerwise" else a.get("k_reduce_by_layer", 0)
    wanted = [max(1, dim_k - layer * reduced) for layer in range(depth)]
    most = max(wanted, default=0)
    yield (convolution and most > size,
           f'method "convolution": a layer has dim_k {most}{"" if most == dim_k else " after k_reduce_by_layer"}; '
           f"expected at most input_size {size}")
    rows = [size // (size // k) if convolution and k <= size else k for k in wanted]
    yield (causal and not a["full_attention"] and any(k != dim_k for k in rows),
           f"causal: the mask is for {dim_k} rows of keys, but the layers have {rows}")
    yield "num_tokens" in a and (a["emb_dim"] or a["channels"]) % 2, "sinusoids come in pairs: the width must be even"
    yield (a.get("ff_intermediate") not in (None, a["channels"]) and depth > 1 and not a["include_ff"],
           "ff_intermediate needs include_ff: only feed-forward layers change the width")
    yield ("depth" in a and a["decoder_mode"] and a["checkpoint_level"] != "C0",  # MHAttention has no depth
           "decoder_mode needs embeddings, which only checkpoint_level C0 accepts")


# ---- The class made again, to see that the kwargs are the model's ---------------------------------------------------


def python_arguments(cls, kwargs):
    """The kwargs for Python: tuples instead of lists, namedtuples instead of objects."""
    arguments = {}
    for name, value in kwargs.items():
        if isinstance(value, dict) and name.endswith("linformer_settings"):
            settings = "LinformerContextSettings" if name.startswith("context") else "LinformerSettings"
            value = getattr(sys.modules[cls.__module__], settings)(**value)
        arguments[name] = tuple(value) if isinstance(value, list) else value
    return arguments


def make(architecture, cls, kwargs, model):
    """Makes the class with these kwargs. Its tensors take no memory if the version of torch allows it."""
    torch = sys.modules["torch"]
    try:
        with torch.device("meta") if hasattr(torch.device, "__enter__") else contextlib.nullcontext():
            arguments = python_arguments(cls, kwargs)
            if architecture == ATTENTION:
                arguments.update(made_projections(model, arguments))
            return cls(**arguments)
    except Exception as error:
        return refuse(f"{architecture}: the class refuses these kwargs: {error or type(error).__name__}")


def made_projections(model, arguments):
    """The modules and tensors that MHAttention's constructor expects, made with the library's functions."""
    library, head = sys.modules[type(model).__module__], model.heads[0]
    size = (arguments["input_size"], arguments["dim_k"])
    e, f = (library.get_EF(*size, arguments.get("method", "learnable"), arguments["dim"]) for _ in "EF")
    mask = library.gen_causal_mask(*size, arguments["full_attention"]) if arguments["causal_mask"] else None
    return {"E_proj": e, "F_proj": e if head.E is head.F else f, "causal_mask": mask}


def setting(value):
    """The part of a module's attribute that can be compared."""
    if hasattr(value, "dtype"):
        return list(value.shape)
    if hasattr(value, "keywords"):  # functools.partial
        return [setting(value.func), value.keywords]
    if isinstance(value, (bool, int, float, str, tuple, list, type(None))):
        return value
    return getattr(value, "__qualname__", type(value).__name__)


def compare(made, model, where):
    """Refuses a model if one of its modules, or a setting of one, differs from the module that the kwargs make."""
    if type(made) is not type(model):
        refuse(f"{where}: these kwargs result in {type(made).__name__}, but the model has {type(model).__name__}")
    if type(made).__name__ == "Dropout":
        return
    expected, found = ({name: part for name, part in one._modules.items() if part} for one in (made, model))
    if list(expected) != list(found):
        refuse(f"{where}: these kwargs result in the parts {', '.join(expected)}, but the model has {', '.join(found)}")
    for name, value in vars(made).items():
        if name[0] == "_" or name in ("training", "dropout", "padding_idx", "P_bar"):
            continue
        expects, has = setting(value), setting(getattr(model, name, None))
        if expects != has:
            refuse(f"{where}.{name}: these kwargs result in {expects!r:.80}, but the model has {has!r:.80}")
    for name, child in expected.items():
        compare(child, found[name], f"{where}.{name}")


def compare_tensors(architecture, made, tensors):
    """Compares names and shapes. Tensors that the class shares must be equal."""
    first = {}
    for name in [*made, *tensors]:
        expected, found = (list(side[name].shape) if name in side else "none" for side in (made, tensors))
        if expected != found:
            refuse(f'{architecture}: tensor "{name}": these kwargs result in {expected}, but the model has {found}')
    for name, tensor in made.items():
        one, other = tensors[first.setdefault(id(tensor), name)], tensors[name]
        if one is not other and (one.dtype != other.dtype or not sys.modules["torch"].equal(one.cpu(), other.cpu())):
            refuse(f'{architecture}: tensor "{name}" differs from "{first[id(tensor)]}", but the class uses '
                   "one tensor for both")
        tensors[name] = one  # on a GPU, each head has a copy of E and F


# ---- Files ----------------------------------------------------------------------------------------------------------


def describe(name, tensor, dtypes):
    """The name of the dtype in safetensors, the shape, and an identity that all names of one tensor have in common."""
    dtype = str(tensor.dtype).rpartition(".")[2]
    if dtype not in dtypes:
        refuse(f'tensor "{name}": expected dtype {", ".join(dtypes)}, found {dtype}')
    identity = id(tensor)
    if hasattr(tensor, "data_ptr") and tensor.data_ptr():
        identity = (str(tensor.device), tensor.data_ptr(), tensor.stride())
    return dtypes[dtype], list(tensor.shape), (identity, dtype, tuple(tensor.shape))


def raw(tensor):
    """The bytes of the tensor, little-endian, as a flat array of integers."""
    if hasattr(tensor, "detach"):
        torch = sys.modules["torch"]
        words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
        array = tensor.detach().cpu().contiguous().reshape(-1).view(words).numpy()
    else:
        array = numpy.ascontiguousarray(tensor).reshape(-1)
        array = array.view(f"i{array.dtype.itemsize}")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def write_safetensors(file, tensors, dtypes=DTYPES):
    """Writes a length, a JSON header and the tensors. A tensor with several names is stored once. __metadata__ has its
    further names."""
    stored, aliases, header, offset = {}, {}, {}, 0
    for name, tensor in tensors.items():
        dtype, shape, identity = describe(name, tensor, dtypes)
        if stored.setdefault(identity, name) != name:
            aliases[name] = stored[identity]
        else:
            header[name] = {"dtype": dtype, "shape": shape}
    bits = {name: BITS[entry["dtype"]] for name, entry in header.items()}
    # In this order, each tensor is aligned to the size of its elements.
    names = sorted(header, key=lambda name: (-bits[name], name))
    for name in names:
        size = math.prod(header[name]["shape"]) * bits[name] // 8
        header[name]["data_offsets"] = [offset, offset + size]
        offset += size
    if aliases:
        header["__metadata__"] = aliases
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for name in names:
        file.write(raw(tensors[name]))


def write_folder(folder, config, tensors, daemon, dtypes=DTYPES, tokenizer=None):
    """Writes the files of a model. A new folder appears complete. In an existing folder, a reader finds the old model,
    the new model, or no model. `tokenizer`: the bytes of a tokenizer.json, or None."""
    exists = folder.is_dir()
    stage = (folder if exists else folder.absolute().parent) / f".export-{secrets.token_hex(8)}"
    stage.mkdir(parents=True)
    try:
        with open(stage / "model.safetensors", "wb") as file:
            write_safetensors(file, tensors, dtypes)
            file.flush()
            os.fsync(file.fileno())
        (stage / "config.json").write_text(config)
        if tokenizer is not None:
            (stage / "tokenizer.json").write_bytes(tokenizer)
        ask_daemon(daemon, stage, folder)
        if not exists:
            stage.rename(folder)
            return
        small = [name for name in ("tokenizer.json", "config.json") if (stage / name).exists()]
        if any(contents(folder / name) != contents(stage / name) for name in small):
            (folder / "config.json").unlink(missing_ok=True)
        for name in ("model.safetensors", *small):
            (stage / name).replace(folder / name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def contents(path):
    return path.read_bytes() if path.exists() else None


def ask_daemon(daemon, stage, folder):
    """Lets the daemon read the model in the same way as at its start."""
    daemon = shutil.which("linformerd") if daemon is None else daemon
    if not daemon:
        return
    result = subprocess.run([os.fspath(daemon), "--explain", os.fspath(stage)], capture_output=True, text=True)
    if result.returncode != 0:
        # The message is the last line. An older daemon logs its device before the message.
        said = result.stderr.strip().splitlines() or [f"ended with status {result.returncode}"]
        message = said[-1].replace(os.fspath(stage), os.fspath(folder)).replace(stage.name, folder.name)
        refuse(f"{daemon} refuses the model: {message}")


if __name__ == "__main__":
    print(__doc__)
