"""asyncio: tasks, gather, timeouts, cancellation, async generators and context managers."""

import asyncio
import contextvars
from contextlib import asynccontextmanager

who = contextvars.ContextVar("who", default="nobody")


async def work(name, delay):
    who.set(name)
    steps = []
    for i in range(3):
        await asyncio.sleep(delay)
        steps.append(f"{who.get()}{i}")
    return steps


async def numbers(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i


@asynccontextmanager
async def opened(name):
    print("open", name)
    try:
        yield name.upper()
    finally:
        print("close", name)


async def main():
    print(await asyncio.gather(work("a", 0.001), work("b", 0.001)))
    async with opened("x") as value:
        print(value, [i async for i in numbers(4) if i % 2])
    try:
        await asyncio.wait_for(asyncio.sleep(5), 0.01)
    except TimeoutError:
        print("timed out")
    task = asyncio.create_task(work("c", 10))
    await asyncio.sleep(0)
    task.cancel()
    print((await asyncio.gather(task, return_exceptions=True))[0].__class__.__name__)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(work("d", 0))
            group.create_task(fails())
    except* ValueError as errors:
        print([str(error) for error in errors.exceptions])
    print(who.get())


async def fails():
    reason = "no"
    raise ValueError(reason)


if __name__ == "__main__":
    asyncio.run(main())

# Output:
# [['a0', 'a1', 'a2'], ['b0', 'b1', 'b2']]
# open x
# X [1, 3]
# close x
# timed out
# CancelledError
# ['no']
# nobody
