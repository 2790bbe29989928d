import functools
import time

STEPS = {}


def register(name):
    def deco(f):
        STEPS[name] = f
        return f

    return deco


def timed(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        t = time.perf_counter()
        try:
            return f(*args, **kwargs)
        finally:
            TIMES[f.__name__] = TIMES.get(f.__name__, 0) + time.perf_counter() - t

    return inner


TIMES = {}
