"""multiprocessing with every start method: processes, pools, and pools that are terminated."""

import multiprocessing


def double(x):
    y = x * 2
    return y


def put(queue, x):
    value = double(x)
    queue.put(value)


class Adder:
    def __init__(self, n):
        self.n = n

    def __call__(self, x):
        total = self.n + x
        return total


if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=put, args=(queue, 4))
        process.start()
        print(method, queue.get(), end=" ")
        process.join()
        print(process.exitcode, end=" ")
        pool = context.Pool(1)
        print(pool.map(double, range(3)), pool.map(Adder(5), range(3)), end=" ")
        pool.close()
        pool.join()
        with context.Pool(1) as pool:
            print(sorted(pool.imap_unordered(double, range(3))))

# Output:
# fork 8 0 [0, 2, 4] [5, 6, 7] [0, 2, 4]
# spawn 8 0 [0, 2, 4] [5, 6, 7] [0, 2, 4]
# forkserver 8 0 [0, 2, 4] [5, 6, 7] [0, 2, 4]
