"""`datasets.map` in two processes, with functions, closures and lambdas of the program."""

import datasets
from datasets import Dataset

datasets.disable_progress_bars()
OFFSET = 10


def lengthen(row):
    length = len(row["text"]) + OFFSET
    return {"length": length, "worker": helper(length)}


def helper(length):
    half = length / 2
    return half


def scaled(k):
    def inner(row):
        value = row["length"] * k
        return {"scaled": value}

    return inner


def batches(rows):
    doubled = [2 * value for value in rows["scaled"]]
    return {"doubled": doubled}


if __name__ == "__main__":
    data = Dataset.from_dict({"text": ["a", "bb", "ccc", "dddd"]})
    mapped = data.map(lengthen, num_proc=2)
    print(mapped[:])
    mapped = mapped.map(scaled(3), num_proc=2).map(batches, batched=True).filter(lambda row: row["doubled"] > 70)
    print(mapped["doubled"][:])

# Needs: datasets
# Output:
# {'text': ['a', 'bb', 'ccc', 'dddd'], 'length': [11, 12, 13, 14], 'worker': [5.5, 6.0, 6.5, 7.0]}
# [72, 78, 84]
