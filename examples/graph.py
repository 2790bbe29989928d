"""Preprocessing and model as one folder that runs anywhere: `python examples/graph.py`.

A pipeline that tells German from English texts is called once with an example, saved, and run by another Python in an
empty folder, after this program's files are gone. A text that would take another way through the pipeline is not
answered by the way of the example: it raises. Recorded with an example of each way, it is answered too.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import clew

WORDS = ["the", "of", "and", "is", "a", "der", "die", "und", "ist", "ein"]


@clew.op
class Tokenizer:
    def __init__(self, path):
        self.words = {word: number for number, word in enumerate(Path(path).read_text().split(), 1)}

    def __call__(self, text):
        return [self.words.get(word, 0) for word in text.lower().split()]


class Bag(nn.Module):
    """Counts words; the German ones speak for German."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.cat([torch.zeros(1), -torch.ones(size // 2), torch.ones(size // 2)]))

    def forward(self, ids):
        return torch.sigmoid(self.weight[ids].sum(-1))


@clew.op
def verdict(german):
    return "German" if german > 0.5 else "English"


def main(folder):
    (folder / "words.txt").write_text(" ".join(WORDS))
    tokenize, model = Tokenizer(folder / "words.txt"), clew.op(Bag(len(WORDS)))

    def detect(text):
        ids = tokenize(text)
        if len(ids) == 0:
            return "nothing"
        return verdict(model(torch.tensor(ids)))

    graph = clew.record(detect, "the cat is a friend")
    print(graph.show())
    graph.save(folder / "one", assets="anywhere")
    clew.record(detect, ["the cat is a friend", " "]).save(folder / "both", assets="anywhere")


ELSEWHERE = """
import sys, clew
for bundle in sys.argv[1:]:
    graph = clew.load(bundle, trusted=True)
    for text in ("Das ist ein Hund und der ist gut", "  "):
        try:
            print(repr(text), "is", graph(text=text))
        except clew.GuardError as error:
            print(error)
"""

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as empty:
        main(Path(made))
        (Path(made) / "words.txt").unlink()
        subprocess.run([sys.executable, "-c", ELSEWHERE, f"{made}/one", f"{made}/both"], cwd=empty, check=True)
