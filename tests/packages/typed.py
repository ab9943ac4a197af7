"""Code of a user, for mypy --strict. The comment after each reveal_type is the expected type. test_wheel.sh compares
these types with mypy's."""

import linformerd

with linformerd.serve("folder", threads=2) as server:
    reveal_type(server)  # linformerd._serve.Server
    reveal_type(server.embed(["a"]))  # list[list[float]]
    reveal_type(server.embed_all("a", truncate=True))  # list[list[list[float]]]
    reveal_type(server.generate("a", max_new_tokens=3).ids)  # list[int]
    reveal_type([token.text for token in server.generate_stream("a")])  # list[str]
    reveal_type(server.url)  # str
reveal_type(linformerd.export(object(), {"dim": 3}, "folder", name="a"))  # None
reveal_type(linformerd.__version__)  # str
