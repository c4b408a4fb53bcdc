"""Code without loops, for what is kept in registers."""

from collections.abc import Sequence
from typing import Any


def straight(schedule: Any, loops: Sequence[Any]) -> None:
    """Unroll all loops but the last, the innermost one, which is vectorised."""
    *others, lane = loops
    for loop in others:
        schedule.unroll(loop)
    schedule.vectorize(lane)
