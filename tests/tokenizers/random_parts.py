"""Tokenizers of random parts around trained models."""
import json


def maybe(chance, value, probability=0.5):
    return value if chance.random() < probability else None


def pattern(chance, empty=True):
    """A random pattern. `empty` allows patterns that match the empty text. A normalizer must not use such patterns. It
    would insert text at the start, which has no position in the original text. The next steps of `tokenizers` would
    repeat or lose characters, or panic."""
    strings = [" ", "a", "th", "é", "--", "  ", "中", ".", "_", "\n"] + [""] * empty
    expressions = [r"\s+", r"\w+", r"[aeiou]", r"\d", r"(?i)the", r"\p{Lu}", r"[^\s]+", r"(?<=a)b", r"\p{L}+|\p{N}",
                   r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"]
    expressions += [r"a*", r"\b", r"$", r"^"] * empty
    return {"String": chance.choice(strings)} if chance.random() < 0.5 else {"Regex": chance.choice(expressions)}


def behavior(chance):
    return chance.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])


def switch(chance):
    return chance.random() < 0.5


def normalizer(chance, charsmaps):
    kind = chance.choice(["BertNormalizer", "Strip", "StripAccents", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Nmt", "Precompiled",
                          "Replace", "Prepend", "ByteLevel", "Sequence", "Sequence"])
    part = {"type": kind}
    if kind == "BertNormalizer":
        part |= {"clean_text": switch(chance), "handle_chinese_chars": switch(chance),
                 "strip_accents": chance.choice([None, True, False]), "lowercase": switch(chance)}
    elif kind == "Strip":
        part |= {"strip_left": switch(chance), "strip_right": switch(chance)}
    elif kind == "Precompiled":
        part |= {"precompiled_charsmap": chance.choice(charsmaps)}
    elif kind == "Replace":
        part |= {"pattern": pattern(chance, empty=False), "content": chance.choice(["", "x", "▁", "ab", "é "])}
    elif kind == "Prepend":
        part |= {"prepend": chance.choice(["▁", "x", "ab ", "é"])}
    elif kind == "Sequence":
        part |= {"normalizers": [normalizer(chance, charsmaps) for _ in range(chance.randrange(4))]}
    return part


def byte_level(chance):
    return {"type": "ByteLevel", "add_prefix_space": switch(chance), "trim_offsets": switch(chance), "use_regex": switch(chance)}


def metaspace(chance):
    return {"type": "Metaspace", "replacement": chance.choice("▁_ é"), "prepend_scheme": chance.choice(["always", "never", "first"]),
            "split": switch(chance)}


def pre_tokenizer(chance):
    kind = chance.choice(["BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Metaspace", "Whitespace", "Split", "Split",
                          "Punctuation", "WhitespaceSplit", "Digits", "UnicodeScripts", "FixedLength", "Sequence", "Sequence", "Sequence"])
    part = {"type": kind}
    if kind == "ByteLevel":
        part = byte_level(chance)
    elif kind == "Metaspace":
        part = metaspace(chance)
    elif kind == "CharDelimiterSplit":
        part |= {"delimiter": chance.choice(" a-é▁")}
    elif kind == "Split":
        part |= {"pattern": pattern(chance), "behavior": behavior(chance), "invert": switch(chance)}
    elif kind == "Punctuation":
        part |= {"behavior": behavior(chance)}
    elif kind == "Digits":
        part |= {"individual_digits": switch(chance)}
    elif kind == "FixedLength":
        part |= {"length": chance.randrange(1, 9)}
    elif kind == "Sequence":
        part |= {"pretokenizers": [pre_tokenizer(chance) for _ in range(chance.randrange(4))]}
    return part


def processor(chance):
    special = {"[X]": {"id": "[X]", "ids": [3], "tokens": ["[X]"]}, " y": {"id": " y", "ids": [1, 2], "tokens": [" y", "Ġz "]}}
    places = {"A": {"Sequence": {"id": "A", "type_id": 0}}} | {name: {"SpecialToken": {"id": name, "type_id": 0}} for name in special}
    single = [places[chance.choice(["[X]", "A", " y"])] for _ in range(chance.randrange(3))] + [places["A"]]
    template = {"type": "TemplateProcessing", "single": single, "pair": [places["A"], {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": special}
    bert = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    roberta = bert | {"type": "RobertaProcessing", "trim_offsets": switch(chance), "add_prefix_space": switch(chance)}
    adder = chance.choice([template, template, bert, roberta])
    several = [adder] + [byte_level(chance)] * (adder is not roberta)
    chance.shuffle(several)
    return chance.choice([adder, byte_level(chance), {"type": "Sequence", "processors": several}])


def decoder(chance):
    kind = chance.choice(["BPEDecoder", "ByteLevel", "WordPiece", "Metaspace", "CTC", "Replace", "Fuse", "Strip", "ByteFallback",
                          "Sequence", "Sequence"])
    part = {"type": kind}
    if kind == "BPEDecoder":
        part |= {"suffix": chance.choice(["</w>", "", "e"])}
    elif kind == "ByteLevel":
        part = byte_level(chance)
    elif kind == "WordPiece":
        part |= {"prefix": chance.choice(["##", "", "a"]), "cleanup": switch(chance)}
    elif kind == "Metaspace":
        part = metaspace(chance)
    elif kind == "CTC":
        part |= {"pad_token": chance.choice(["<pad>", "e", ""]), "word_delimiter_token": chance.choice(["|", "a"]), "cleanup": switch(chance)}
    elif kind == "Replace":
        part |= {"pattern": pattern(chance), "content": chance.choice(["", " ", "xy"])}
    elif kind == "Strip":
        part |= {"content": chance.choice(" ae"), "start": chance.randrange(3), "stop": 0}
    elif kind == "Sequence":
        part |= {"decoders": [decoder(chance) for _ in range(chance.randrange(4))]}
    return part


def added_tokens(chance, vocabulary):
    contents = ["<s>", "[MASK]", " <mask>", "the", "Day", "hello world", "é", "\u0301", "中", "a  b", "\n", "x" * 5, "tok", "  "]
    contents += chance.sample(vocabulary, min(2, len(vocabulary)))
    names = ["single_word", "lstrip", "rstrip", "normalized", "special"]
    return [{"id": index, "content": content} | {name: chance.random() < 0.35 for name in names}
            for index, content in enumerate(dict.fromkeys(chance.sample(contents, chance.randrange(5))))]


def sections(chance):
    truncation = {"direction": chance.choice(["Left", "Right"]), "max_length": chance.randrange(12, 40), "strategy": "LongestFirst",
                  "stride": chance.randrange(3)}
    padding = {"strategy": chance.choice(["BatchLongest", {"Fixed": chance.randrange(50)}]), "direction": chance.choice(["Left", "Right"]),
               "pad_to_multiple_of": chance.choice([None, 0, 1, 8]), "pad_id": 1, "pad_type_id": 0, "pad_token": "[PAD]"}
    return {"truncation": maybe(chance, truncation, 0.2), "padding": maybe(chance, padding, 0.2)}


def model(chance, trained):
    result = json.loads(json.dumps(trained))
    if result["type"] == "BPE":
        for key in ("fuse_unk", "byte_fallback", "ignore_merges"):
            if chance.random() < 0.3:
                result[key] = not result[key]
        if chance.random() < 0.3:
            result["unk_token"] = chance.choice([None, next(iter(result["vocab"]))])
        if chance.random() < 0.15 and not result["continuing_subword_prefix"]:
            result["end_of_word_suffix"] = chance.choice(["</w>", "e", None])
    elif result["type"] == "Unigram" and chance.random() < 0.3:
        result["byte_fallback"] = not result["byte_fallback"]
    elif result["type"] == "WordPiece":
        result["max_input_chars_per_word"] = chance.choice([100, 5, 1000])
    return result


def document(chance, models, charsmaps):
    chosen = model(chance, chance.choice(models))
    vocabulary = [entry if isinstance(entry, str) else entry[0] for entry in chosen["vocab"]]
    return {"version": "1.0", **sections(chance), "added_tokens": added_tokens(chance, vocabulary),
            "normalizer": maybe(chance, normalizer(chance, charsmaps), 0.7), "pre_tokenizer": maybe(chance, pre_tokenizer(chance), 0.8),
            "post_processor": maybe(chance, processor(chance)), "decoder": maybe(chance, decoder(chance), 0.8), "model": chosen}
