"""The tokenizers of the comparison. Every part of the format tokenizer.json is in at least one of them."""
import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = CL100K.replace("{1,3}", "")
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def train(tokenizer, trainer, lines):
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def bpe(tokenizer, lines, size, special=(), **options):
    return train(tokenizer, trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False,
                                                limit_alphabet=300, **options), lines)


def unigram(tokenizer, lines, size, special=("<unk>",), **options):
    return train(tokenizer, trainers.UnigramTrainer(vocab_size=size, special_tokens=list(special), unk_token="<unk>",
                                                    show_progress=False, **options), lines)


def template(cls, sep, tokenizer):
    return processors.TemplateProcessing(single=f"{cls} $A {sep}", pair=f"{cls} $A {sep} $B:1 {sep}:1",
                                         special_tokens=[(token, tokenizer.token_to_id(token)) for token in (cls, sep)])


def changed(tokenizer, change):
    document = json.loads(tokenizer.to_str())
    change(document)
    return Tokenizer.from_str(json.dumps(document))


def gpt2(lines, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    return bpe(tokenizer, lines, size, ["<|endoftext|>"], initial_alphabet=ALPHABET)


def roberta(lines, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    bpe(tokenizer, lines, size, ["<s>", "<pad>", "</s>", "<unk>"], initial_alphabet=ALPHABET)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def llama3(lines, size):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(CL100K), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    bpe(tokenizer, lines, size, initial_alphabet=ALPHABET)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="$A $B", special_tokens=[("<|begin_of_text|>", begin)])])
    return tokenizer


def qwen(lines, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(QWEN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    bpe(tokenizer, lines, size, initial_alphabet=ALPHABET)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("tok", single_word=True)])
    return tokenizer


def llama2(lines, size):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")  # only for the training
    bpe(tokenizer, lines, size, specials)

    def change(document):
        document["pre_tokenizer"] = None
        document["added_tokens"] = document["added_tokens"][:3]

    tokenizer = changed(tokenizer, change)
    tokenizer.post_processor = template("<s>", "</s>", tokenizer)
    return tokenizer


def clip(lines, size):
    tokenizer = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
                                                 normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(CLIP), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.BPEDecoder("</w>")])
    bpe(tokenizer, lines, size, ["<|startoftext|>", "<|endoftext|>"], initial_alphabet=ALPHABET, end_of_word_suffix="</w>")
    tokenizer.post_processor = template("<|startoftext|>", "<|endoftext|>", tokenizer)
    return tokenizer


def subwords(lines, size):
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    bpe(tokenizer, lines, size, ["[UNK]", "[PAD]"], continuing_subword_prefix="##")
    tokenizer.enable_truncation(12, direction="left")
    tokenizer.enable_padding(direction="left", pad_id=1, length=14)
    return tokenizer


def fused(lines, size):
    """A BPE with an unknown token, a prefix, and tokens for a part of the bytes. With byte_fallback and a prefix, the
    offsets of the library are inconsistent."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, continuing_subword_prefix="@", fuse_unk=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    bpe(tokenizer, lines, size, ["<unk>"] + [f"<0x{byte:02X}>" for byte in range(0x20, 0xF0)], continuing_subword_prefix="@")
    return changed(tokenizer, lambda document: document.update(added_tokens=[]))


def bert(lines, size):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    train(tokenizer, trainers.WordPieceTrainer(vocab_size=size, show_progress=False, limit_alphabet=400,
                                               special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]), lines)
    tokenizer.post_processor = template("[CLS]", "[SEP]", tokenizer)
    return tokenizer


def bert_cased(lines, size):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=True, handle_chinese_chars=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    train(tokenizer, trainers.WordPieceTrainer(vocab_size=size, show_progress=False, limit_alphabet=200,
                                               special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]), lines)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.enable_truncation(32)
    tokenizer.enable_padding(pad_to_multiple_of=8)
    return tokenizer


def words(lines, size):
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)])
    train(tokenizer, trainers.WordLevelTrainer(vocab_size=size, special_tokens=["<unk>", "<pad>", "<mask>"],
                                               show_progress=False), lines)
    tokenizer.add_tokens([AddedToken("Day", normalized=True, single_word=True), AddedToken("new word", rstrip=True),
                          AddedToken(" pad", lstrip=True, normalized=False)])
    return tokenizer


def speech(lines, size):
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFD(), normalizers.Replace(" ", "|")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.CharDelimiterSplit("-"), pre_tokenizers.Digits(), pre_tokenizers.Punctuation("contiguous"),
         pre_tokenizers.FixedLength(3)])
    tokenizer.decoder = decoders.CTC(pad_token="[PAD]", word_delimiter_token="|")
    return train(tokenizer, trainers.WordLevelTrainer(vocab_size=size, special_tokens=["[PAD]", "[UNK]"],
                                                      show_progress=False), lines)


def charsmap(rules, lines):
    """SentencePiece's table for a rule such as nmt_nfkc, or for the lines of a file of rules."""
    import io
    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines[:2000]), model_writer=model, vocab_size=120,
                                             hard_vocab_limit=False, minloglevel=2, character_coverage=0.98, **rules)
    from sentencepiece import sentencepiece_model_pb2
    spec = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue()).normalizer_spec
    return spec.precompiled_charsmap


def t5(lines, size, rules=None):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap(rules or small_rules(), lines)),
                                                 normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    unigram(tokenizer, lines, size, ["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                             special_tokens=[("</s>", 1)])
    tokenizer.add_special_tokens(["<extra_id_0>"])
    return tokenizer


def small_rules():
    """A file of replacements of clusters and of single characters. Some replacements are longer than the text that they
    replace, some are shorter, and some are empty."""
    import tempfile
    pairs = [("ﬁ", "fi"), ("½", "1/2"), ("é", "e"), ("e\u0301", "é"), ("\r\n", " "), ("\n", " "), ("\t", " "), ("…", "..."),
             ("\u200b", ""), ("ß", "ss"), ("Å", "A"), ("　", " "), ("Ａ", "A"), ("ガ", "ga"), ("\u0301", ""), ("가", "ga")]
    file = tempfile.NamedTemporaryFile("w", suffix=".tsv", delete=False)
    for old, new in pairs:
        file.write(" ".join(f"{ord(c):X}" for c in old) + "\t" + " ".join(f"{ord(c):X}" for c in new) + "\n")
    file.close()
    return {"normalization_rule_tsv": file.name}


def xlmr(lines, size):
    return t5(lines, size, {"normalization_rule_name": "nmt_nfkc"})


def pieces(lines, size):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip(left=True, right=False)])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(),
                                                       pre_tokenizers.Metaspace("_", prepend_scheme="first")])
    tokenizer.decoder = decoders.Sequence([decoders.Metaspace("_", prepend_scheme="first"), decoders.ByteFallback(), decoders.Fuse()])
    special = ["<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    unigram(tokenizer, lines, size, special)

    def change(document):
        document["model"]["byte_fallback"] = True
        document["added_tokens"] = document["added_tokens"][:1]

    return changed(tokenizer, change)


def whole(lines, size):
    """A Unigram model over whole texts, which no pre-tokenizer splits."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    unigram(tokenizer, lines, size)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    return tokenizer


def bytes_first(lines, size):
    tokenizer = Tokenizer(models.BPE(unk_token="?"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.ByteLevel()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("Ġ"), "merged_with_previous")
    tokenizer.decoder = decoders.ByteLevel()
    return bpe(tokenizer, lines, size, ["?"], initial_alphabet=ALPHABET)


def splits(lines, size):
    tokenizer = Tokenizer(models.BPE(unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split("  ", "contiguous"), pre_tokenizers.Split(Regex(r"[aeiou]\w"), "merged_with_next"),
         pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Split("th", "isolated")])
    tokenizer.decoder = decoders.Fuse()
    return bpe(tokenizer, lines, size, ["?"])


CASES = {case.__name__: case for case in (gpt2, roberta, llama3, qwen, llama2, clip, subwords, fused, bert, bert_cased, words,
                                          speech, t5, xlmr, pieces, whole, bytes_first, splits)}
LARGE = {"xlmr"}  # the table of this tokenizer has 300 kB, so make.py leaves the tokenizer out

# Cases whose regular expressions match classes of characters, and which the project runs with Oniguruma. The
# distribution's Oniguruma may know fewer characters than the Oniguruma in `tokenizers`.
EXPRESSIONS = {"clip", "splits"}
