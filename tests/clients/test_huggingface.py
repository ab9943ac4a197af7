"""huggingface_hub's InferenceClient with the daemon: classes of texts and of pictures, masked words, similarity, and
generation of texts."""

import asyncio
import os
import sys
import tempfile

import numpy as np
from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import HfHubHTTPError, UnknownError

import support
from support import LABELS

PICTURES = ["tests/images/rgb.png", "tests/images/rgb420.jpg"]
HEIGHT, WIDTH = 4, 6


def picture_model(folder):
    """Writes a model with three classes. The logits are the means of the picture's channels."""
    nodes = [
        {"op": "view", "to": "v", "self": "img", "size": ["batch", 3, HEIGHT * WIDTH]},
        {"op": "mean", "to": "y", "self": "v", "dim": [2]},
    ]
    inputs = {"name": "img", "dtype": "float32", "shape": ["batch", 3, HEIGHT, WIDTH]}
    support.write_model(folder, support.labelled_graph(inputs, {}, nodes, image={"size": [HEIGHT, WIDTH]}), {})


def softmax(logits):
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()


def compare(found, scores):
    assert [entry.score for entry in found] == sorted((entry.score for entry in found), reverse=True)
    for entry in found:
        assert abs(entry.score - scores[LABELS.index(entry.label)]) < support.TOLERANCE


def texts(address, logits):
    for url in (address, f"{address}/", f"{address}/predict"):
        client = InferenceClient(model=url, token="none")
        for text in ("a", "cats and dogs"):
            expected = logits(text)
            found = client.text_classification(text)
            assert len(found) == 3
            compare(found, softmax(expected))
            compare(client.text_classification(text, top_k=5), softmax(expected))
            (best,) = client.text_classification(text, top_k=1, function_to_apply="none")
            assert best.label == LABELS[int(expected.argmax())]
            compare([best], expected)
            compare(client.text_classification(text, function_to_apply="sigmoid"), 1 / (1 + np.exp(-expected)))


def pictures(address):
    """The client sends the file of a path, or bytes, as the body. With parameters, it sends base64. The scores must be
    the same."""
    for url in (address, f"{address}/predict"):
        client = InferenceClient(model=url, token="none")
        for path in PICTURES:
            with open(path, "rb") as file:
                data = file.read()
            found = client.image_classification(path)
            assert sorted(entry.label for entry in found) == LABELS
            assert abs(sum(entry.score for entry in found) - 1) < support.TOLERANCE
            assert client.image_classification(data) == found
            assert client.image_classification(path, top_k=5) == found
            assert client.image_classification(data, top_k=2) == found[:2]
            raw = client.image_classification(path, function_to_apply="none")
            compare(found, softmax(np.array([e.score for e in sorted(raw, key=lambda e: LABELS.index(e.label))])))


def masks(address):
    """For one mask, the client returns a list of candidates. For several masks, it returns such a list for each
    mask."""
    client = InferenceClient(model=f"{address}/fill-mask", token="none")
    found = client.fill_mask("The [MASK] barks in the kennel at night.")
    assert len(found) == 5 and found[0].token_str == "dog" and found[0].score > 0.9
    assert found[0].sequence == "the dog barks in the kennel at night."
    assert client.fill_mask("The [MASK] barks in the kennel at night.", top_k=2) == found[:2]
    targets = client.fill_mask("Ada gives the [MASK] some honey.", targets=["dog", "bear"])
    assert [filling.token_str for filling in targets] == ["bear", "dog"]
    support.expect(HfHubHTTPError, lambda: client.fill_mask("The dog barks."), "does not contain the mask token ([MASK])")
    several = client.fill_mask("The [MASK] barks at the [MASK].", top_k=3)
    assert [len(of_mask) for of_mask in several] == [3, 3] and several[0][0].sequence.count("[MASK]") == 1


def similarities(address):
    """The similarities must be the cosines of the vectors that feature_extraction returns."""
    texts = ["The dog barks.", "The puppy likes bones.", "The tadpole likes flies."]
    client = InferenceClient(model=f"{address}/similarity", token="none")
    found = client.sentence_similarity(texts[0], other_sentences=texts[1:])
    embed = InferenceClient(model=f"{address}/embed", token="none")
    vectors = [embed.feature_extraction(text).reshape(-1).astype(float) for text in texts]
    for number, vector in zip(found, vectors[1:], strict=True):
        expected = vectors[0] @ vector / np.linalg.norm(vectors[0]) / np.linalg.norm(vector)
        assert abs(number - expected) < support.TOLERANCE
    support.expect(HfHubHTTPError, lambda: client.sentence_similarity("a", other_sentences=[]), "sentences is empty")


def refusals(address):
    client = InferenceClient(model=address, token="none")
    support.expect(HfHubHTTPError, lambda: client.image_classification(b"no picture"), "not JSON")
    support.expect(HfHubHTTPError, lambda: client.image_classification(b"no picture", top_k=1), "neither JPEG nor PNG")


def generated(address):
    """text_generation with the daemon's address, with /generate and with /generate_stream: texts, details and
    streams."""
    client = InferenceClient(model=address, token="none")
    options = dict(max_new_tokens=40, temperature=1.3, seed=11)
    text = client.text_generation("caf\u00e9 ", **options)
    details = client.text_generation("caf\u00e9 ", details=True, top_n_tokens=2, **options)
    assert details.generated_text == text and details.details.seed == 11
    assert details.details.generated_tokens == len(details.details.tokens) == len(details.details.top_tokens)
    assert client.text_generation("caf\u00e9 ", return_full_text=True, **options) == "caf\u00e9 " + text
    assert client.text_generation("caf\u00e9 ", model=f"{address}/generate", **options) == text
    for url in (address, f"{address}/generate_stream"):
        events = list(client.text_generation("caf\u00e9 ", model=url, stream=True, details=True, **options))
        assert [event.index for event in events] == list(range(1, len(events) + 1))
        assert [event.token.id for event in events] == [token.id for token in details.details.tokens]
        assert all(event.generated_text is None and event.details is None for event in events[:-1])
        assert events[-1].generated_text == text
        assert events[-1].details.input_length == 6
        assert events[-1].details.finish_reason == details.details.finish_reason
        pieces = list(client.text_generation("caf\u00e9 ", model=url, stream=True, **options))
        assert pieces == [event.token.text for event in events]
    support.expect(UnknownError, lambda: client.text_generation("a", top_p=2.0), "parameters.top_p")
    support.expect(UnknownError, lambda: list(client.text_generation("", stream=True)), "inputs is empty")


def generated_async(address):
    async def calls():
        client = AsyncInferenceClient(model=address, token="none")
        options = dict(max_new_tokens=40, seed=3, details=True, temperature=1.1)
        whole = await client.text_generation("ab", **options)
        events = [event async for event in await client.text_generation("ab", stream=True, **options)]
        assert events[-1].generated_text == whole.generated_text

    asyncio.run(calls())


def main():
    with tempfile.TemporaryDirectory() as folder:
        text_folder, picture_folder = (os.path.join(folder, name) for name in ("texts", "pictures"))
        logits = support.text_model(text_folder)
        picture_model(picture_folder)
        generating_folder = os.path.join(folder, "bytes")
        support.generating_model(generating_folder)
        with (
            support.Daemon("--model", text_folder) as first,
            support.Daemon("--model", picture_folder) as second,
            support.Daemon("--model", "docs/examples/animals") as third,
            support.Daemon("--model", generating_folder) as fourth,
        ):
            return support.run(
                [
                    ("fill_mask returns the best tokens for a mask", lambda: masks(f"http://{third.address}")),
                    ("sentence_similarity returns the cosines of vectors", lambda: similarities(f"http://{third.address}")),
                    ("text_classification returns the model's scores", lambda: texts(f"http://{first.address}", logits)),
                    ("image_classification returns the same scores for a file, bytes and base64", lambda: pictures(f"http://{second.address}")),
                    ("text_generation returns the same text whole and as a stream", lambda: generated(f"http://{fourth.address}")),
                    ("text_generation with asyncio returns the same text whole and as a stream", lambda: generated_async(f"http://{fourth.address}")),
                    ("a body that is no picture is refused", lambda: refusals(f"http://{second.address}")),
                ]
            )


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
