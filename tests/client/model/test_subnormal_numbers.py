"""A race computes without subnormal numbers."""

import threading
from collections.abc import Callable

import numpy as np

from tunefarm.model.race.subnormal_numbers import flush_subnormals

SUBNORMAL = np.full(8, 1e-39, np.float32)


def in_thread(run: Callable[[], object]) -> None:
    """Run it in a thread of its own, whose arithmetic this one does not share."""
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def test_thread_and_those_that_it_starts_compute_with_zeros() -> None:
    found = []

    def compute() -> None:
        found.append((SUBNORMAL * np.float32(0.5))[0])

    def flushed() -> None:
        assert flush_subnormals()
        compute()
        in_thread(compute)

    in_thread(flushed)
    compute()
    assert found == [0.0, 0.0, np.float32(1e-39) / 2]
