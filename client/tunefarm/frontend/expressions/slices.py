"""Slices whose places are tensors, as tensor expressions."""

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx


def clamped(start: Any, greatest: int) -> Any:
    """A start moved so that its slice is in the tensor; a constant where there is one place only."""
    if greatest == 0:
        return tirx.IntImm("int64", 0)
    return tirx.max(tirx.min(start.astype("int64"), tirx.IntImm("int64", greatest)), tirx.IntImm("int64", 0))


def updated(data: te.Tensor, part: te.Tensor, starts: Sequence[Any]) -> te.Tensor:
    """The data with ``part`` in place of its slice at ``starts``, which is inside."""

    def element(*index: Any) -> Any:
        places = [i - start for i, start in zip(index, starts, strict=True)]
        inside = [
            tirx.all(place >= 0, place < taken)
            for place, taken, whole in zip(places, part.shape, data.shape, strict=True)
            if int(taken) != int(whole)
        ]
        return tirx.if_then_else(tirx.all(*inside), part(*places), data(*index)) if inside else part(*places)

    return te.compute(data.shape, element, name="dynamic_update_slice")
