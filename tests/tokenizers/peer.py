"""Runs the program encode.c, and compares its results with those of a `tokenizers.Tokenizer`."""
import struct
import subprocess


class Peer:
    def __init__(self, program, path):
        self.process = subprocess.Popen([program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def number(self):
        return struct.unpack("<I", self.read(4))[0]

    def read(self, size):
        data = self.process.stdout.read(size)
        if len(data) != size:
            raise RuntimeError(f"the program ended with status {self.process.wait()}")
        return data

    def text(self):
        return self.read(self.number())

    def encode(self, data):
        """The program's result for a text, in the form of expected(), or its error."""
        self.process.stdin.write(struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()
        count = self.number()
        if count == 0xFFFFFFFF:
            return {"error": self.text().decode()}
        tokens = [(*struct.unpack("<iIII", self.read(16)), self.text().decode()) for _ in range(count)]
        return {"ids": [token[0] for token in tokens], "offsets": [token[1:3] for token in tokens],
                "special": [token[3] for token in tokens], "tokens": [token[4] for token in tokens],
                "decoded": self.text().decode(), "skipped": self.text().decode()}

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def expected(tokenizer, text):
    try:
        encoding = tokenizer.encode(text)
    except Exception as error:
        return {"error": str(error)}
    return {"ids": encoding.ids, "offsets": encoding.offsets, "special": encoding.special_tokens_mask,
            "tokens": encoding.tokens, "decoded": tokenizer.decode(encoding.ids, skip_special_tokens=False),
            "skipped": tokenizer.decode(encoding.ids, skip_special_tokens=True)}


def differences(found, wanted):
    """The keys whose values differ. Error messages may differ."""
    if "error" in wanted or "error" in found:
        return [] if ("error" in wanted) == ("error" in found) else ["error"]
    return [key for key in wanted if found[key] != wanted[key]]
