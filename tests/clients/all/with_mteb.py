"""mteb evaluates vectors of the daemon on a small task. The texts of the task are in this file."""

import sys

import mteb
import numpy as np
from datasets import Dataset, DatasetDict
from mteb.mocks.mock_tasks.sts import MockSTSTask
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta

from record import main, same, tried, vectors

FIRST = ["cp copies files.", "mv moves files.", "ls lists files.", "rm removes files.", "cat prints files."]
SECOND = ["cp copies a file.", "mv renames files.", "ps lists processes.", "a dog barks.", "cat prints a file."]
SCORES = [5.0, 4.0, 2.0, 0.0, 5.0]


class Pairs(MockSTSTask):
    def load_data(self, *_, **__):
        rows = Dataset.from_dict({"sentence1": FIRST, "sentence2": SECOND, "score": SCORES})
        self.dataset, self.data_loaded = DatasetDict(test=rows), True


class Encoder(AbsEncoder):
    """The class that a user writes so that mteb receives its vectors from a server."""

    def __init__(self, address):
        self.address = address
        self.mteb_model_meta = ModelMeta.create_empty({"name": "linformerd/builtin", "revision": "1"})

    def encode(self, inputs, **_):
        return np.array(vectors(self.address, [text for batch in inputs for text in batch["text"]]))


@tried("mteb", "evaluate, a task of similar sentences", note="needs a class of a few lines that asks `/embed`")
def evaluated(builtin):
    results = mteb.evaluate(Encoder(builtin), Pairs(), cache=None, co2_tracker=False, show_progress_bar=False)
    (scores,) = results.task_results[0].scores["test"]
    first, second = np.array(vectors(builtin, FIRST)), np.array(vectors(builtin, SECOND))
    same(scores["cosine_pearson"], np.corrcoef((first * second).sum(axis=1), SCORES)[0, 1])


if __name__ == "__main__":
    sys.exit(main())
