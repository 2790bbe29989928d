"""Functions of a program, closures, lambdas and partials in the workers of joblib."""

from functools import partial

from joblib import Parallel, delayed

SCALE = 3


def work(x, bias=0):
    y = x * SCALE + bias
    return helper(y)


def helper(y):
    z = y + 1
    return z


class Model:
    def __init__(self, a):
        self.a = a

    def predict(self, x):
        y = self.a * x
        return y


def outer(k):
    def inner(x):
        w = x * k
        return work(w)

    def countdown(n):
        left = 0 if n == 0 else 1 + countdown(n - 1)
        return left

    found = Parallel(n_jobs=2)(delayed(inner)(i) for i in range(4))
    return found, Parallel(n_jobs=2)(delayed(countdown)(i) for i in range(3))


if __name__ == "__main__":
    print(Parallel(n_jobs=2)(delayed(work)(i) for i in range(6)))
    print(Parallel(n_jobs=2)(delayed(lambda x: x**2)(i) for i in range(6)))
    print(Parallel(n_jobs=2)(delayed(partial(work, bias=1))(i) for i in range(3)))
    print(Parallel(n_jobs=2)(delayed(Model(4).predict)(i) for i in range(3)))
    print(outer(2))

# Needs: joblib
# Output:
# [1, 4, 7, 10, 13, 16]
# [0, 1, 4, 9, 16, 25]
# [2, 5, 8]
# [0, 4, 8]
# ([1, 7, 13, 19], [0, 1, 2])
