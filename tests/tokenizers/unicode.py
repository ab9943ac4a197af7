#!/usr/bin/env python3
"""Writes server/tokenizer/unicode_table.c: the properties that Hugging Face's `tokenizers` gives to each code point.

    unicode.py >server/tokenizer/unicode_table.c

The components of `tokenizers` use different versions of Unicode. So the script tests each property of each code point
with the installed library. This takes a minute."""
import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
FLAGS = ["SPACE", "CONTROL", "NONSPACING", "MARK", "PUNCTUATION", "NUMERIC", "WORD", "LETTER", "NUMBER", "DECOMPOSES"]


def normalized(normalizer):
    return {code: normalizer.normalize_str(chr(code)) for code in CODES}


def splits(pre_tokenizer):
    """The code points before and after which the pre-tokenizer splits."""
    return {code for code in CODES if len(pre_tokenizer.pre_tokenize_str(f"\1{chr(code)}\1")) > 1}


def bert(**options):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**(off | options))


def removed(normalizer):
    return {code for code, text in normalized(normalizer).items() if text == ""}


def changed(normalizer):
    return {code for code, text in normalized(normalizer).items() if text != chr(code)}


def words():
    whitespace = pre_tokenizers.Whitespace()
    return {code for code in CODES if whitespace.pre_tokenize_str("a" + chr(code))[0][0] == "a" + chr(code)}


def properties():
    decomposes = changed(normalizers.NFKD()) | changed(normalizers.NFD())
    return {"SPACE": removed(normalizers.Strip()), "CONTROL": removed(bert(clean_text=True)),
            "NONSPACING": removed(bert(strip_accents=True)) - decomposes,
            "MARK": removed(normalizers.StripAccents()),
            "PUNCTUATION": splits(pre_tokenizers.Punctuation("isolated")),
            "NUMERIC": splits(pre_tokenizers.Digits(individual_digits=True)), "WORD": words(),
            "LETTER": splits(pre_tokenizers.Split(Regex(r"\p{L}"), "isolated")),
            "NUMBER": splits(pre_tokenizers.Split(Regex(r"\p{N}"), "isolated")), "DECOMPOSES": decomposes}


def scripts():
    """The number of the script of each code point. 0 means any script. Such a code point is joined with both
    neighbours."""
    cut = pre_tokenizers.UnicodeScripts()

    def differ(one, other):
        return len(cut.pre_tokenize_str(chr(one) + chr(other))) == 2

    latin, greek = ord("a"), ord("α")
    known, result, last = [latin, greek], {}, latin
    for code in CODES:
        if not differ(latin, code) and not differ(greek, code):
            result[code] = 0
            continue
        if differ(last, code):
            last = next((other for other in known if not differ(other, code)), code)
            if last == code:
                known.append(code)
        result[code] = known.index(last) + 1
    return result


def runs(values):
    """Yields (first code, value) for each run of code points with equal values. Surrogates have the value 0."""
    last = None
    for code in range(0x110000):
        value = values.get(code, 0)
        if value != last:
            yield code, value
        last = value


def table(name, kind, rows):
    print(f"\n/* clang-format off */\nconst struct {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        text = " {" + ", ".join(f"{value:#x}" for value in row) + "},"
        if len(line + text) > 118:
            print(line)
            line = "   "
        line += text
    print(f"{line}\n}};\n/* clang-format on */")
    print(f"const size_t n_{name} = sizeof {name} / sizeof *{name};")


def main():
    found = properties()
    flags = {code: sum(1 << bit for bit, name in enumerate(FLAGS) if code in found[name]) for code in CODES}
    print(f"/* unicode_table: what each code point is to `tokenizers` {tokenizers.__version__}.\n"
          " * tests/tokenizers/unicode.py writes this file. */\n#include \"server/tokenizer/unicode_table.h\"")
    table("unicode_flags", "unicode_run", runs(flags))
    table("unicode_scripts", "unicode_run", runs(scripts()))
    lower = {code: text for code, text in normalized(normalizers.Lowercase()).items()
             if text != chr(code) and len(text) == 1 and code >= 0x80}
    table("unicode_lowercase", "unicode_pair", ((code, ord(text)) for code, text in sorted(lower.items())))


if __name__ == "__main__":
    main()
