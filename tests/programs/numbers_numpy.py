"""NumPy: views, in-place changes, random numbers, ufuncs, structured arrays."""

import numpy as np


def fit(x, y, steps):
    w = np.zeros(x.shape[1])
    for step in range(steps):
        error = x @ w - y
        w -= 0.1 * x.T @ error / len(y)
    return w, float((error**2).mean())


def views(a):
    b = a[1:3]
    b *= 10
    c = a.reshape(2, 2).T
    return b.base is a, c.flags.c_contiguous, a.tolist()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    w, loss = fit(x, x @ [2.0, -1.0], 200)
    print(np.round(w, 3), round(loss, 6), views(np.arange(4.0)))
    table = np.zeros(2, dtype=[("n", "i4"), ("v", "f8")])
    table["v"] += 1.5
    print(table, np.add.reduce(np.arange(5)), np.random.RandomState(3).randint(0, 9, 4))

# Needs: numpy
# Output:
# [ 2. -1.] 0.0 (True, False, [0.0, 10.0, 20.0, 3.0])
# [(0, 1.5) (0, 1.5)] 10 [8 3 8 8]
