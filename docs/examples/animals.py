"""Trains a tokenizer and a small language model on short texts about animals, and exports both for linformerd.

    pip install torch linformer numpy tokenizers
    PYTHONPATH=../../weights python3 animals.py             # trains, writes animals/
    python3 animals.py measure http://localhost:8080        # asks a daemon for words that are masked in new texts

The script draws the texts at random. Each text is about one animal: where it lives, what it eats, which sound it makes,
how its young is called. So a masked word follows from the other words."""

import json
import random
import re
import sys
import time
import urllib.request

# For each animal its home, its food, its sound and its young.
ANIMALS = {
    "dog": ("kennel", "bones", "barks", "puppy"),
    "cat": ("basket", "fish", "meows", "kitten"),
    "cow": ("stable", "grass", "moos", "calf"),
    "sheep": ("fold", "clover", "bleats", "lamb"),
    "pig": ("sty", "potatoes", "grunts", "piglet"),
    "hen": ("coop", "grain", "clucks", "chick"),
    "duck": ("pond", "snails", "quacks", "duckling"),
    "bee": ("hive", "nectar", "buzzes", "larva"),
    "bear": ("cave", "honey", "growls", "cub"),
    "wolf": ("den", "meat", "howls", "pup"),
    "frog": ("swamp", "flies", "croaks", "tadpole"),
    "owl": ("barn", "mice", "hoots", "owlet"),
    "snake": ("desert", "eggs", "hisses", "snakelet"),
    "crow": ("nest", "worms", "caws", "nestling"),
    "horse": ("paddock", "oats", "neighs", "foal"),
    "monkey": ("jungle", "bananas", "chatters", "infant"),
}
SENTENCES = [
    "The {animal} eats {food} {when}.",
    "The {animal} {sound} in the {home} {when}.",
    "{name} gives the {animal} some {food}.",
    "{name} hears how the {animal} {sound}.",
    "The {young} is a young {animal}.",
    "The {animal} sleeps with its {young} in the {home}.",
    "{name} found the {young} in the {home}.",
    "The {young} likes {food} {when}.",
    "{name} saw the {animal} {place}, not in the {home}.",
]
NAMES = "Ada Ben Clara David Emma Felix Grace Hugo".split()
PLACES = ["behind the house", "near the river", "under the old tree", "on the hill"]
WHEN = ["every day", "at night", "in the morning", "in summer", "if it rains"]
LENGTH = 64  # tokens


def draw(chance):
    """A text of one or two sentences. Also returns the words that occur once in it, and that follow from the other
    words."""
    animal = chance.choice(list(ANIMALS))
    words = dict(zip(("home", "food", "sound", "young"), ANIMALS[animal]), animal=animal)
    words.update(name=chance.choice(NAMES), place=chance.choice(PLACES), when=chance.choice(WHEN))
    text = " ".join(chance.sample(SENTENCES, chance.randint(1, 2))).format(**words)
    known, found = (animal, *ANIMALS[animal]), re.findall(r"\w+", text)
    return text, [word for word in known if found.count(word) == 1]


def train_tokenizer(count=5000):
    """A BPE tokenizer. A space becomes part of the word after it, and is written as ▁."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    chance = random.Random(1)
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    spaces = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([spaces, pre_tokenizers.Punctuation()])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    mask = AddedToken("[MASK]", lstrip=True)  # the space before it is part of the masked word
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", mask]
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator((draw(chance)[0] for _ in range(count)), trainer)
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer


def arguments(tokenizer):
    """The arguments of LinformerLM."""
    return dict(num_tokens=tokenizer.get_vocab_size(), dim=48, seq_len=LENGTH, depth=2, heads=4, k=32)


def batches(chance, tokenizer, count, size):
    """Ids (size, n). All texts of a batch have the same length, so no padding is needed."""
    groups = {}
    for encoding in tokenizer.encode_batch([draw(chance)[0] for _ in range(count)]):
        groups.setdefault(len(encoding.ids), []).append(encoding.ids)
    found = [group[i : i + size] for group in groups.values() for i in range(0, len(group), size)]
    chance.shuffle(found)
    return found


def train(tokenizer, steps=3000):
    import torch
    from linformer import LinformerLM
    from torch.nn.functional import cross_entropy

    torch.manual_seed(1)
    chance, model = random.Random(2), LinformerLM(**arguments(tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, steps)
    mask = tokenizer.token_to_id("[MASK]")
    step = 0
    while step < steps:
        for batch in batches(chance, tokenizer, 6400, 64)[: steps - step]:
            ids = torch.tensor(batch)
            hidden = (torch.rand(ids.shape) < 0.2) & (ids > mask)  # no special token
            hidden[0, 1] = True
            logits = model(ids.masked_fill(hidden, mask))
            loss = cross_entropy(logits[hidden], ids[hidden])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
        print(f"step {step}: loss {loss.item():.3f}", flush=True)
    return model


def export(model, tokenizer, folder):
    from export import export

    export(model, arguments(tokenizer), folder, tokenizer=tokenizer)


def question(chance):
    """A text with a mask, and the word that was there."""
    while True:
        text, known = draw(chance)
        if known:
            word = chance.choice(known)
            return re.sub(rf"\b{word}\b", "[MASK]", text), word


def measure(address, count=1000):
    """Asks a daemon for the masked words of `count` new texts, and returns how many answers are right."""
    chance, right = random.Random(3), 0
    for _ in range(count):
        text, word = question(chance)
        body = {"inputs": text, "parameters": {"top_k": 1}}
        request = urllib.request.Request(
            address + "/fill-mask", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            right += json.load(answer)[0]["token_str"].strip() == word
    print(f"{right} of {count} right")
    return right


def main():
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2])
        return
    start = time.time()
    tokenizer = train_tokenizer()
    model = train(tokenizer)
    print(f"trained in {time.time() - start:.0f} s")
    export(model, tokenizer, "animals")


if __name__ == "__main__":
    main()
