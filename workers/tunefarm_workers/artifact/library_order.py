"""Orders about a library for a fresh process. Named tuples, because importing pydantic would delay its start."""

import json
from typing import NamedTuple


class TensorOrder(NamedTuple):
    """One argument. ``input_offset_bytes`` is the offset of its contents among the inputs; None without contents."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_output: bool
    input_offset_bytes: int | None


class RivalOrder(NamedTuple):
    """Another library, for the same tensors unpacked, that is timed in turn with that of an order."""

    library: str
    digest: str
    entry: str


class LibraryOrder(NamedTuple):
    """Load the library at the path ``library``, whose SHA-256 is ``digest``, and time it.

    ``likely_s`` is the latency of one call elsewhere, if known. ``pack_entry`` packs the tensors that ``packed`` names;
    ``entry`` takes the packed ones in their place.
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
        """Serialize for another process."""
        return json.dumps(self).encode()

    @classmethod
    def of_json(cls, text: bytes) -> "LibraryOrder":
        """Parse the output of ``to_json``."""
        order = cls(*json.loads(text))
        rival = None if order.rival is None else RivalOrder(*order.rival)
        return order._replace(tensors=_tensors(order.tensors), packed=_tensors(order.packed), rival=rival)


def _tensors(written: object) -> tuple[TensorOrder, ...]:
    assert isinstance(written, list), "a named tuple is written as a list"
    tensors = (TensorOrder(*fields) for fields in written)
    return tuple(tensor._replace(shape=tuple(tensor.shape)) for tensor in tensors)
