"""What is followed is found in memory, and no other thread notices the search."""

from __future__ import annotations

import threading

from clew.probes.follow.following import Following
from clew.probes.follow.scope import Scope


def test_a_thread_that_fills_a_tuple_meanwhile_goes_on() -> None:
    """`tuple(generator)` raises SystemError where somebody else holds the unfinished tuple."""
    errors: list[BaseException] = []
    is_over = threading.Event()

    def fill_tuples() -> None:
        try:
            while not is_over.is_set():
                assert len(tuple(number for number in range(3000))) == 3000
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=fill_tuples) for _ in range(1)]
    for thread in threads:
        thread.start()
    for _ in range(6):
        Following(scope=Scope(["a_module_that_is_not_there"])).prepare()
    is_over.set()
    for thread in threads:
        thread.join()
    assert errors == []
