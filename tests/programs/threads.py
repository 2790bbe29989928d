"""Threads, locks, queues, timers, thread-local data."""

import queue
import threading

local = threading.local()
lock = threading.Lock()
total = 0


def add(n):
    global total
    local.value = n
    for i in range(n):
        with lock:
            total += 1
    results.put((threading.current_thread().name, local.value))


def produce(items):
    for item in items:
        work.put(item)
    work.put(None)


def consume():
    got = []
    while (item := work.get()) is not None:
        got.append(item * 2)
    results.put(got)


results, work = queue.Queue(), queue.Queue(2)
if __name__ == "__main__":
    threads = [threading.Thread(target=add, args=(n,), name=f"t{n}") for n in (10, 20, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(total, sorted(results.get() for _ in threads))
    pair = [threading.Thread(target=produce, args=(range(5),)), threading.Thread(target=consume)]
    for thread in pair:
        thread.start()
    for thread in pair:
        thread.join()
    print(results.get(), threading.active_count() >= 1, hasattr(local, "value"))
    timer = threading.Timer(0.001, print, ["timer"])
    timer.start()
    timer.join()

# Output:
# 60 [('t10', 10), ('t20', 20), ('t30', 30)]
# [0, 2, 4, 6, 8] True False
# timer
