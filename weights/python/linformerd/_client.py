"""The client. Each method sends a request to a route of docs/http-api.md."""

from __future__ import annotations

import array
import base64
import http.client
import json
import sys
import urllib.parse
import warnings
from dataclasses import dataclass
from typing import Any, Iterator, Mapping


class RequestError(RuntimeError):
    """The daemon refused a request. `status` is the HTTP status. `error_type` is the daemon's name for the kind of
    error."""

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(f"{status} {error_type}: {message}")
        self.status = status
        self.error_type = error_type
        self.message = message


@dataclass(frozen=True)
class Generation:
    """A generated continuation: its text, the ids of its tokens, and why it ended (length, eos_token,
    stop_sequence, or abort if the daemon ended)."""

    text: str
    ids: list[int]
    finish_reason: str


@dataclass(frozen=True)
class Token:
    """A generated token. `text` is empty while a character is incomplete, and for a model without a tokenizer."""

    id: int
    text: str
    logprob: float


class Client:
    """Sends requests to the daemon at `url`, such as "http://127.0.0.1:8080". Several threads may use one client.

    `options` of a method are further keys of the route's body, such as model, normalize and truncate. If the daemon
    says that it ignored a key, the method raises a warning. Inputs may be lists, numpy arrays or torch tensors. Results
    are lists, even if numpy or torch is installed, except the results of infer()."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: float | None = None) -> None:
        self.url = url.rstrip("/")
        self._api_key = api_key
        self._timeout_s = timeout_s

    # ---- Vectors and scores

    def embed(self, inputs: object = None, **options: Any) -> list[list[float]]:
        """One vector for each input. `inputs` is a text, a list of ids, or a list of these. For a model of floats, pass
        `embeddings` instead."""
        return [_floats(one) for one in self.post("/embed", _base64(inputs, options))]

    def embed_all(self, inputs: object = None, **options: Any) -> list[list[list[float]]]:
        """One vector for each token of each input."""
        return [[_floats(row) for row in one] for one in self.post("/embed_all", _base64(inputs, options))]

    def logits(self, inputs: object = None, **options: Any) -> list[dict[str, Any]]:
        """For each input, a dict with positions and logits. With top_k, the dict also has tokens and text."""
        answer = self.post("/logits", _body(inputs, options))
        assert isinstance(answer, list)
        return answer

    def predict(self, inputs: object, **options: Any) -> Any:
        """Labels with their scores. The best label comes first. One input gives a list, several inputs give a list of
        lists."""
        return self.post("/predict", _body(inputs, options))

    def similarity(self, source_sentence: str, sentences: list[str], **options: Any) -> list[float]:
        """The similarity of one text to each of the other texts."""
        body = {"inputs": {"source_sentence": source_sentence, "sentences": sentences}, **options}
        return [float(one) for one in self.post("/similarity", body)]

    def fill_mask(self, inputs: object, *, model: str | None = None, **parameters: Any) -> Any:
        """Guesses for each [MASK] of a text. `parameters` are those of /fill-mask, such as top_k."""
        return self.post("/fill-mask", _with_parameters(inputs, model, parameters))

    # ---- Texts

    def tokenize(self, inputs: object, **options: Any) -> list[list[dict[str, Any]]]:
        """The tokens of each text: id, text, special, start and stop."""
        answer = self.post("/tokenize", _body(inputs, options))
        assert isinstance(answer, list)
        return answer

    def decode(self, ids: object, **options: Any) -> list[str]:
        """The texts of lists of ids."""
        return [str(one) for one in self.post("/decode", {"ids": _plain(ids), **options})]

    def generate(self, inputs: object, *, model: str | None = None, **parameters: Any) -> Generation:
        """Continues a text, or ids. `parameters` are those of /generate, such as max_new_tokens, temperature, seed."""
        body = _with_parameters(inputs, model, {**parameters, "details": True})
        answer = self.post("/generate", body)
        details = answer["details"]
        return Generation(answer["generated_text"], [token["id"] for token in details["tokens"]],
                          details["finish_reason"])

    def generate_stream(self, inputs: object, *, model: str | None = None, **parameters: Any) -> Iterator[Token]:
        """Continues a text, or ids, and yields each token. Closing the iterator stops the generation."""
        with _Exchange(self, "POST", "/generate_stream", _with_parameters(inputs, model, parameters)) as response:
            for line in response:
                if not line.startswith(b"data:"):
                    continue
                event = json.loads(line[len(b"data:"):])
                if "error" in event:
                    raise RequestError(response.status, str(event.get("error_type", "")), str(event["error"]))
                token = event["token"]
                yield Token(token["id"], token["text"], token["logprob"])

    # ---- Tensors

    def infer(self, inputs: Mapping[str, Any], *, model: str, outputs: list[str] | None = None) -> dict[str, Any]:
        """Runs forward() with tensors by the names of its parameters. Returns numpy arrays by the names of the outputs.
        Needs numpy."""
        numpy = _numpy()
        arrays = {name: _array(numpy, value) for name, value in inputs.items()}
        header: dict[str, Any] = {
            "inputs": [{"name": name, "shape": list(one.shape), "datatype": _datatype(name, one),
                        "data": one.reshape(-1).tolist()} for name, one in arrays.items()]}
        if outputs is not None:
            header["outputs"] = [{"name": name} for name in outputs]
        answer = self.post(f"/v2/models/{urllib.parse.quote(model, safe='')}/infer", header)
        return {one["name"]: numpy.asarray(one["data"], dtype=numpy.float32).reshape(one["shape"])
                for one in answer["outputs"]}

    # ---- All routes

    def info(self) -> dict[str, Any]:
        """The answer of /info, which describes the daemon and its models."""
        answer = self.get("/info")
        assert isinstance(answer, dict)
        return answer

    def get(self, path: str) -> Any:
        """The answer of any route: parsed JSON, or text if it is not JSON."""
        return self._exchange("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Sends a JSON body to any route, and returns the parsed answer."""
        return self._exchange("POST", path, body)

    def _exchange(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        with _Exchange(self, method, path, body) as response:
            text = response.read()
            is_json = (response.getheader("Content-Type") or "").startswith("application/json")
        return json.loads(text) if is_json else text.decode()


class _Exchange:
    """A request on a new connection, within a with block. The block receives the response, whose status is 200."""

    def __init__(self, client: Client, method: str, path: str, body: Mapping[str, Any] | None) -> None:
        parts = urllib.parse.urlsplit(client.url)
        connection = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        assert parts.hostname
        self._connection = connection(parts.hostname, parts.port, timeout=client._timeout_s)
        headers = {"Accept": "application/json", "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if client._api_key:
            headers["Authorization"] = f"Bearer {client._api_key}"
        text = None if body is None else json.dumps(body, default=_plain, allow_nan=False).encode()
        self._request = (method, parts.path + path, text, headers)

    def __enter__(self) -> http.client.HTTPResponse:
        try:
            self._connection.request(*self._request)
            response = self._connection.getresponse()
            if response.status != 200:
                raise _request_error(response.status, response.read())
        except BaseException:
            self._connection.close()
            raise
        ignored = response.getheader("x-ignored-keys")
        if ignored:
            warnings.warn(f"linformerd ignored these keys of the request: {ignored}", stacklevel=5)
        return response

    def __exit__(self, *_: object) -> None:
        self._connection.close()


# ---- Bodies ---------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Arrays and tensors as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


def _body(inputs: object, options: Mapping[str, Any]) -> dict[str, Any]:
    body = dict(options)
    if inputs is not None:
        body["inputs"] = _plain(inputs)
    return body


def _base64(inputs: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Requests base64. Base64 is faster to read than decimal numbers, and keeps all bits."""
    return {**_body(inputs, options), "encoding_format": "base64"}


def _with_parameters(inputs: object, model: str | None, parameters: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"inputs": _plain(inputs), "parameters": dict(parameters)}
    if model is not None:
        body["model"] = model
    return body


def _floats(text: str) -> list[float]:
    """The numbers of a base64 text of little-endian float32."""
    floats = array.array("f", base64.b64decode(text))
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tolist()


def _request_error(status: int, text: bytes) -> RequestError:
    """The error of an answer. Its form depends on the dialect: {"error": text}, or {"error": {"message": text}}."""
    try:
        answer = json.loads(text)
        error = answer["error"]
        if isinstance(error, dict):
            return RequestError(status, str(error.get("type", "")), str(error["message"]))
        return RequestError(status, str(answer.get("error_type", "")), str(error))
    except (ValueError, KeyError, TypeError):
        return RequestError(status, "", text.decode("utf-8", "replace"))


def _numpy() -> Any:
    import importlib
    return importlib.import_module("numpy")


def _array(numpy: Any, value: Any) -> Any:
    """A numpy array. A torch tensor may be on any device."""
    return numpy.asarray(_plain(value) if hasattr(value, "detach") else value)


def _datatype(name: str, array: Any) -> str:
    datatypes = {"b": "BOOL", "i": "INT64", "u": "INT64", "f": "FP32"}
    if array.dtype.kind not in datatypes:
        raise TypeError(f"infer: expected numbers or booleans for {name!r}, found {array.dtype}")
    return datatypes[array.dtype.kind]
