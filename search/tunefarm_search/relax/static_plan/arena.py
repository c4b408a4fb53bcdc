"""Places tensors in one piece of memory, so that tensors that are in use at the same time do not overlap.

Greedy by size: the largest tensor first, each at the lowest offset that is free while it is in use (Pisarchyk and Lee,
"Efficient Memory Management for Deep Neural Net Inference", 2020).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ALIGNMENT_BYTES: Final = 64
"""Kernels require tensors that begin at a multiple of it."""


@dataclass(frozen=True)
class Lifetime:
    """A tensor that must keep its contents from step ``begins`` to step ``ends``, both included."""

    size_bytes: int
    begins: int
    ends: int

    def meets(self, other: "Lifetime") -> bool:
        """Whether both are in use at some step."""
        return self.begins <= other.ends and other.begins <= self.ends


@dataclass(frozen=True)
class Arena:
    """The offset of each tensor in bytes, in the order of their lifetimes, and the size of the memory."""

    offsets: tuple[int, ...]
    size_bytes: int


def placed(lifetimes: Sequence[Lifetime]) -> Arena:
    """Place each tensor at a multiple of ``ALIGNMENT_BYTES``."""
    offsets: dict[int, int] = {}
    for number in sorted(range(len(lifetimes)), key=lambda each: (-lifetimes[each].size_bytes, lifetimes[each].begins)):
        taken = sorted(
            (offset, offset + aligned(lifetimes[other].size_bytes))
            for other, offset in offsets.items()
            if lifetimes[number].meets(lifetimes[other])
        )
        offsets[number] = _first_gap(taken, lifetimes[number].size_bytes)
    size_bytes = max((offset + aligned(lifetimes[number].size_bytes) for number, offset in offsets.items()), default=0)
    return Arena(tuple(offsets[number] for number in range(len(lifetimes))), size_bytes)


def aligned(size_bytes: int) -> int:
    """``size_bytes`` rounded up to the alignment."""
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _first_gap(taken: Sequence[tuple[int, int]], size_bytes: int) -> int:
    at = 0
    for begins, ends in taken:
        if begins - at >= aligned(size_bytes):
            break
        at = max(at, ends)
    return at
