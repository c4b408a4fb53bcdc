"""Retries of transactions that the database rolled back."""

import functools
import random
import time
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from tunefarm_services.store.store_error import TransactionLost

_ATTEMPTS: Final = 5
_FIRST_PAUSE_S: Final = 0.01

P = ParamSpec("P")
T = TypeVar("T")


def retried(method: Callable[P, T]) -> Callable[P, T]:
    """Repeat ``method`` a few times if the database rolls its transaction back because of another one.

    The pauses grow and are random, so that two conflicting transactions do not collide again.
    """

    @functools.wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        for attempt in range(_ATTEMPTS - 1):
            try:
                return method(*args, **kwargs)
            except TransactionLost:
                time.sleep(random.uniform(0.5, 1.5) * _FIRST_PAUSE_S * 2**attempt)
        return method(*args, **kwargs)

    return wrapper
