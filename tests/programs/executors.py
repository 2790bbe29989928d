"""Executors of threads and of processes; what a task raises reaches its caller."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed


def work(x):
    y = 10 // x
    return y


def start():
    global ready
    ready = True


def is_ready():
    return ready


if __name__ == "__main__":
    with ThreadPoolExecutor(2) as pool:
        print(list(pool.map(work, [1, 2, 5])))
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(1, mp_context=context, initializer=start) as pool:
            print(method, sorted(done.result() for done in as_completed([pool.submit(work, n) for n in (1, 2, 5)])))
            print(pool.submit(is_ready).result())
            try:
                pool.submit(work, 0).result()
            except ZeroDivisionError as error:
                print("raised:", type(error).__name__)

# Output:
# [10, 5, 2]
# fork [2, 5, 10]
# True
# raised: ZeroDivisionError
# spawn [2, 5, 10]
# True
# raised: ZeroDivisionError
