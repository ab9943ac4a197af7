"""Computes a digest of all files that may change the counts in counts.json. Changes of comments, docstrings and white
space do not change the digest.

The digest also depends on the sizes of models and chips in predict.py. config/ and weights/ read the files of a model.
From these folders, the digest contains only headers that the engine includes."""
import functools
import hashlib
import io
import json
import pathlib
import re
import tokenize

import predict

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
# The sources of the engine whose launches are counted, and of the programs that count. #include lines name the headers.
PATTERNS = ("engine/*.c", "engine/plan/**/*.c", "engine/families/**/*.c", "engine/cuda/**/*.cu", "tests/cuda/shim/**/*.cpp",
            "tests/bench/worker.c", "tests/gpu/predict_counts.py", "tests/gpu/predict_peers.py", "tests/gpu/sass.py")
INCLUDED = (".", "tests/cuda/shim", "tests/cuda/shim/cublas")
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\w+|[^\s\w])', re.DOTALL)


@functools.cache
def included(text):
    """Returns the names in the #include lines of a text."""
    return re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', text, re.MULTILINE)


def headers_of(root, path):
    """Yields the files of the repository that a file includes."""
    for name in included((root / path).read_text()):
        for folder in (*INCLUDED, path.parent):
            found = pathlib.Path(folder, name)
            if (root / found).is_file():
                yield found
                break


def files(root=ROOT):
    """Returns all files of the digest, as sorted paths relative to `root`."""
    todo = [path.relative_to(root) for pattern in PATTERNS for path in root.glob(pattern)]
    found = set(todo)
    while todo:
        path = todo.pop()
        if path.suffix != ".py":
            new = set(headers_of(root, path)) - found
            found |= new
            todo += new
    return sorted(found)


def code_of_python(text):
    """Returns the tokens of a Python file, without comments and docstrings."""
    begins = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    names = {tokenize.NEWLINE: "\n", tokenize.INDENT: "\t"}
    before, code = tokenize.NEWLINE, []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NL, tokenize.COMMENT):
            continue
        alone = token.type in (tokenize.STRING, tokenize.NEWLINE) and before in begins  # a docstring and its end
        if not alone:
            code.append(names.get(token.type, token.string))
            before = token.type
    return code


@functools.cache
def code_of(text, is_python):
    """Returns the text of a source file, without comments and white space."""
    return "\0".join(code_of_python(text) if is_python else filter(None, TOKEN.findall(text)))


def digest(root=ROOT):
    """Returns the SHA-256 of the sources and sizes, as hexadecimal digits."""
    found = hashlib.sha256(json.dumps(predict.counted_for()).encode())
    for path in files(root):
        found.update(f"{path}\0{code_of((root / path).read_text(), path.suffix == '.py')}\0".encode())
    return found.hexdigest()
