# Tasks, async generators and a queue that take turns.
import asyncio


async def produce(name, count, queue):
    for number in range(count):
        await asyncio.sleep(0)
        await queue.put((name, number))
    await queue.put((name, None))


async def pairs(queue, producers):
    while producers:
        name, number = await queue.get()
        if number is None:
            producers -= 1
            continue
        yield name, number


async def collect(limit):
    queue = asyncio.Queue(maxsize=2)
    tasks = [asyncio.create_task(produce(name, 3, queue), name=f"make {name}") for name in "ab"]
    found = [f"{name}{number}" async for name, number in pairs(queue, len(tasks))]
    await asyncio.gather(*tasks)
    return sorted(found)[:limit]


async def cancelled():
    try:
        await asyncio.sleep(10)
    finally:
        print("cleaned up")


async def main():
    print(await collect(5))
    task = asyncio.create_task(cancelled())
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError as error:
        print("cancelled", type(error).__name__, task.cancelled())
    async with asyncio.timeout(5):
        result = await asyncio.gather(collect(1), collect(2), return_exceptions=True)
    print(result)


asyncio.run(main())


# Output:
# ['a0', 'a1', 'a2', 'b0', 'b1']
# cleaned up
# cancelled CancelledError True
# [['a0'], ['a0', 'a1']]
