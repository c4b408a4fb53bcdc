"""What a fresh process is told about a library. Named tuples: such a process has no time to import more."""

import json
from typing import NamedTuple


class TensorOrder(NamedTuple):
    """One tensor to call with. ``input_offset_bytes`` is where its contents lie among the inputs; None for nowhere."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_output: bool
    input_offset_bytes: int | None


class RivalOrder(NamedTuple):
    """Another library for the same tensors, none of them packed, that is timed in turn with the one of an order."""

    library: str
    digest: str
    entry: str


class LibraryOrder(NamedTuple):
    """Load the library at the path ``library``, whose SHA-256 is ``digest``, and time it.

    ``likely_s`` is what one call took elsewhere, if that is known.
    ``pack_entry`` turns the tensors of which ``packed`` has the names into those, which ``entry`` takes in their place.
    """

    library: str
    digest: str
    entry: str
    pack_entry: str | None
    tensors: tuple[TensorOrder, ...]
    packed: tuple[TensorOrder, ...]
    num_cores: int
    cold_cache: bool
    likely_s: float | None = None
    rival: RivalOrder | None = None

    def to_json(self) -> bytes:
        """As bytes for another process."""
        return json.dumps(self).encode()

    @classmethod
    def of_json(cls, text: bytes) -> "LibraryOrder":
        """What ``to_json`` wrote."""
        order = cls(*json.loads(text))
        rival = None if order.rival is None else RivalOrder(*order.rival)
        return order._replace(tensors=_tensors(order.tensors), packed=_tensors(order.packed), rival=rival)


def _tensors(written: object) -> tuple[TensorOrder, ...]:
    assert isinstance(written, list), "a named tuple is written as a list"
    tensors = (TensorOrder(*fields) for fields in written)
    return tuple(tensor._replace(shape=tuple(tensor.shape)) for tensor in tensors)
