"""What the tests of the page look at: `python programs.py` records a few small runs, as users would."""

import sys

import numpy as np

import clew


@clew.watch("loss", "weights", "note", step="step")
def train(steps, rate):
    weights = np.ones((4, 6))
    note = "<b>bold</b><script>document.title = 'broken in'</script>"
    for step in range(steps):
        loss = 1.0 / (1 + rate * step) if step != 40 else float("nan")
        weights = weights - rate * 0.01 * np.arange(24.0).reshape(4, 6)
    return loss


def double(x):
    return x * 2


def fail(x):
    raise ValueError("<i>no</i>")


@clew.follow("total")
def work(count):
    total = 0
    for number in range(count):
        total = total + double(number)
    try:
        fail(total)
    except ValueError:
        pass
    return total


@clew.stage("load")
def load(index):
    return np.full((8, 8, 3), 20 * index, dtype=np.uint8)


@clew.stage("clean")
def clean(image):
    return image.astype(np.float32) / 255


@clew.stage("read")
def read(index):
    return {"image": np.full((8, 8, 3), 20 * index, dtype=np.uint8), "label": index}


@clew.stage("crop")
def crop(row):
    return row["image"][:4, :4], row["label"]


@clew.op
def tokenize(text, sep=" "):
    return text.split(sep)


@clew.op
def count(words):
    return len(words)


def pipeline(text):
    return count(tokenize(text, sep=",")) + 1


def main():
    with clew.run("first", tags={"rate": 0.1}):
        train(100, 0.1)
    with clew.run("second", tags={"rate": 0.2}):
        train(100, 0.2)
    with clew.run("calls"):
        work(50)
    graph = clew.record(pipeline, "a,b")
    with clew.run("items"), clew.items(3):
        for index in range(100):
            clean(load(index))
    with clew.run("rows"), clew.items(2):
        for index in range(100):
            crop(read(index))
    with clew.run("graph"):
        graph.run({"text": "a,b,c"}, record=True)
    with clew.run("empty"):
        pass


if __name__ == "__main__":
    sys.exit(main())
