"""Check that a thread processes items in batches."""

import threading
from collections.abc import Sequence

import pytest

from ceras_ir.workbench.explore.storage import Batches


def test_all_is_done_in_order_and_in_few_batches():
    begun, go = threading.Event(), threading.Event()
    found: list[list[int]] = []

    def work(items: Sequence[int]) -> None:
        begun.set()
        go.wait()
        found.append(list(items))

    batches = Batches(work)
    batches.add(0)
    begun.wait()
    for number in range(1, 100):
        batches.add(number)
    go.set()
    batches.close()
    assert found == [[0], list(range(1, 100))]


def test_an_error_comes_back():
    def work(items: Sequence[int]) -> None:
        raise ValueError(f"not {items[0]}")

    batches = Batches(work)
    batches.add(7)
    with pytest.raises(ValueError, match="not 7"):
        batches.close()
    batches.close()
