"""Code without loops, for what is kept in registers, and loops without conditions."""

from collections.abc import Sequence
from typing import Any


def straight(schedule: Any, loops: Sequence[Any]) -> None:
    """Unroll all loops but the last, the innermost one, which is vectorised."""
    *others, lane = loops
    for loop in others:
        schedule.unroll(loop)
    schedule.vectorize(lane)


def partition(schedule: Any, loop: Any) -> None:
    """Have TVM make a loop of each range in which the conditions in a loop have one value."""
    schedule.annotate(loop, "pragma_loop_partition_hint", True)
