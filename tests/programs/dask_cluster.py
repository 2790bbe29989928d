"""A cluster of Dask on this machine: functions go to a worker process by cloudpickle."""

from dask.distributed import Client

RATE = 2


def load(i):
    value = i * RATE
    return helper(value)


def helper(value):
    more = value + 1
    return more


if __name__ == "__main__":
    with Client(n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        print(client.gather(client.map(load, range(5))))
        print(client.submit(lambda x: x * RATE, 21).result())

# Needs: distributed
# Output:
# [1, 3, 5, 7, 9]
# 42
