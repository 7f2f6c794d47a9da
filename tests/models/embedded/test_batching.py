"""Requests made together run together; a failing item fails alone; a caller that left costs nothing."""

import asyncio

import pytest

from palestra.models.embedded.batching import Batcher


async def test_concurrent_items_share_one_batch():
    batches = []

    def work(items):
        batches.append(list(items))
        return [item * 10 for item in items]

    batcher = Batcher("test")
    assert await asyncio.gather(*(batcher.submit(work, item) for item in range(20))) == [10 * i for i in range(20)]
    assert batches == [list(range(20))]


async def test_an_error_in_an_items_place_reaches_only_its_caller():
    def work(items):
        return [ValueError("bad") if item == 1 else item for item in items]

    batcher = Batcher("test")
    found = await asyncio.gather(*(batcher.submit(work, item) for item in range(3)), return_exceptions=True)
    assert found[0] == 0
    assert isinstance(found[1], ValueError)
    assert found[2] == 2


async def test_an_error_of_the_whole_batch_reaches_all_and_the_next_batch_works():
    def fail(items):
        raise RuntimeError("broken")

    batcher = Batcher("test")
    found = await asyncio.gather(*(batcher.submit(fail, item) for item in range(2)), return_exceptions=True)
    assert [type(one) for one in found] == [RuntimeError, RuntimeError]
    assert await batcher.submit(list, 5) == 5


async def test_a_cancelled_item_is_not_computed():
    seen = []

    def work(items):
        seen.extend(items)
        return items

    batcher = Batcher("test")
    tasks = [asyncio.create_task(batcher.submit(work, item)) for item in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
    assert await tasks[0] == 0
    assert await tasks[2] == 2
    assert seen == [0, 2]
