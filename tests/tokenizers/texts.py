"""Texts for the tokenizers: Debian's own documentation for the training, and unusual texts for the comparison."""
import gzip
import pathlib
import random

SENTENCES = """The quick brown fox jumps over the lazy dog. It's 12:30, isn't it? We'll see; they've gone.
Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. STRASSE, Straße, ſtraße.
Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva de crapaüter en canoë. ÉTÉ İstanbul
Příliš žluťoučký kůň úpěl ďábelské ódy. Đặng Thị Huệ ăn bánh mì.
Съешь же ещё этих мягких французских булок, да выпей чаю. Ёлка Йод
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ΟΔΥΣΣΕΥΣ ὀρθογραφία
דג סקרן שט בים מאוכזב ולפתע מצא לו חברה. שָׁלוֹם עֲלֵיכֶם
نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر. مَرْحَبًا ١٢٣
ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण। क्षत्रिय १२३
เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน
いろはにほへと ちりぬるを。コンピューター・カタカナ ﾊﾝｶｸ ガギグ が
天地玄黃，宇宙洪荒。日月盈昃，辰宿列張。　全角ＡＢＣ１２３
키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다. 한글 각
👩‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷 ❤️ 🏳️‍🌈 1️⃣ ☎︎ 😀😃😄
def f(x):\n\treturn x**2 + 3*x - 1  # comment\r\n\r\n    if (a && b) { c[i] += 0x1F; }
e\u0301 a\u0323\u0302 o\u0308\u0304 q\u0307\u0323 \u0344 \u1e9b\u0323 ﬁ ﬀ ½ ² ™ ① ㎏ ㈱ Å ẛ̣ \u00c5 \u212b \u2126""".split("\n")

ODD = ["", " ", "  ", "\n", "\t \n", "\0", "a\0b", "\x7f\x80\x9f", "\u200b\u200d\ufeff", "\u2028\u2029\u0085", "\u00a0\u3000",
       "\ufffd", "'s 'S 'ſ 'll 'LL 'Ll 're 've 'm 'd 't 'x '", "a  b   c    d", "   leading", "trailing   ", "\r\n\r\n \n",
       "<s>hello</s>", "[MASK] [CLS][SEP] [mask]", " <mask> <mask>", "<|endoftext|>a<|endoftext|>", "<0x41><0xE2>", "▁a ▁▁ b",
       "Ġhello Ċ", "##ing ##", "hello</w>", "\u0301\u0301a", "a" + "\u0301\u0323" * 20, "\u05b0\u05b1\u0591" * 9, "x" * 150,
       "1234567890" * 3, "٣٤٥ ४५६ ⅷ ² ½ 一二三", "ᄀ\u1161\u11a8 각", "\u0b47\u0b3e \u0cca", "ǅ ŉ ǰ ΐ ﬃ ﬆ ß ẞ İ ı K Å",
       "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U000e0041\U000e007f", "\ue000\uf8ff\U000f0000\U0010ffff", "\u0378\u0530\U0001fbff",
       "a\u0300\u0301\u0302b", "－－＿＿", "…—–‘’“”«»¿¡", "hello,world!how?are.you:i'm(fine)[ok]{x}", "a_b-c_d", "http://a.b/c?d=e&f#g",
       "\u1cf2\u1734\u11938 \U00011935\U00011930", "㋿ ꟲ", "day Day DAY mondaydays day", "tok tok1tok tok_", " pad  pad pad"]


def corpus(most_bytes=3_000_000):
    """Lines of the documentation that is installed on this Debian system."""
    lines, size = [], 0
    places = [*pathlib.Path("/usr/share/common-licenses").glob("*"), *pathlib.Path("/usr/share/doc").glob("*/*"),
              *pathlib.Path("/usr/share/perl").glob("*/pod/*.pod")]
    for path in sorted(places):
        if not path.is_file() or size > most_bytes:
            continue
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        if b"\0" in data:
            continue
        text = data[:60_000].decode("utf-8", "replace")
        size += len(text)
        lines.extend(line for line in text.split("\n") if line.strip())
    return lines + SENTENCES * 20


def random_character(chance):
    kind = chance.random()
    if kind < 0.35:
        return chr(chance.randrange(32, 127))
    if kind < 0.45:
        return chance.choice(" \t\n\r  ")
    if kind < 0.55:
        return chr(chance.randrange(0x300, 0x370))
    if kind < 0.75:
        return chr(chance.randrange(0xa0, 0x800))
    if kind < 0.9:
        return chr(chance.choice([*range(0x800, 0xd800, 7), *range(0xe000, 0x10000, 7)]))
    return chr(chance.randrange(0x10000, 0x20000) if kind < 0.97 else chance.randrange(0x20000, 0x110000))


def one(chance, lines):
    kind = chance.random()
    if kind < 0.35:
        return " ".join(chance.sample(lines, chance.randrange(1, 4)))[:chance.randrange(1, 700)]
    if kind < 0.5:
        return " ".join(chance.sample(SENTENCES, chance.randrange(1, 4)))
    if kind < 0.6:
        sentence = chance.choice(SENTENCES)
        begin = chance.randrange(len(sentence))
        return sentence[begin:begin + chance.randrange(1, 40)]
    if kind < 0.75:
        return "".join(chance.choice(ODD + SENTENCES) for _ in range(chance.randrange(1, 4)))
    if kind < 0.85:
        words = [chance.choice(ODD + ["a", "hello", "World", "the", "été", "12"]) for _ in range(chance.randrange(1, 6))]
        return chance.choice(["", " ", "  ", "\n"]).join(words)
    if kind < 0.9:
        return chance.choice("ab 1.é中\u0301\n'") * chance.randrange(1, 200)
    return "".join(random_character(chance) for _ in range(chance.randrange(1, 60)))


def texts(count, seed, lines):
    chance = random.Random(seed)
    return (ODD + SENTENCES + [one(chance, lines) for _ in range(max(count - len(ODD) - len(SENTENCES), 0))])[:count]
