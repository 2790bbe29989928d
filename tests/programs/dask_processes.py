"""Dask's schedulers of processes, with functions of the program."""

import dask
import dask.bag

RATE = 2


def load(i):
    value = i * RATE
    return value


def add(values):
    total = sum(values)
    return total


def make(k):
    def scale(x):
        y = x * k
        return y

    return scale


if __name__ == "__main__":
    with dask.config.set(scheduler="processes", num_workers=2):
        print(dask.delayed(add)([dask.delayed(load)(i) for i in range(5)]).compute())
        print(dask.bag.from_sequence(range(6), npartitions=2).map(make(3)).filter(lambda x: x % 2).sum().compute())

# Needs: dask
# Output:
# 20
# 27
