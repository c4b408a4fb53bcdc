"""Transfers outputs from the child that computed them to the process that compares them.

They pass through the child's channel into private memory. Every process of the same user could open shared memory
through ``/proc/PID/fd``, but not a socket: no other process can change a candidate's outputs or the reference.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_workers.correctness.output_layout import OutputLayout
from tunefarm_workers.correctness.tolerance import Array

_MARK: Final = b"O"
"""First byte of a piece; no JSON message begins with it."""
_HEADER: Final = struct.Struct("=c3xIIQ12x")
"""Mark, slot, number of the output, offset in bytes. The size keeps the contents aligned for any type."""
_PIECE_BYTES: Final = 4 << 20
"""Maximum per message: each message is assembled in the child's limited memory."""


def send_outputs(channel: Channel, slot: int, outputs: Iterable[memoryview]) -> None:
    """Send one set of outputs as ``slot``. Raises ``ChannelClosed``."""
    for number, output in enumerate(outputs):
        for start in range(0, output.nbytes, _PIECE_BYTES):
            piece = output[start : start + _PIECE_BYTES]
            channel.send(_HEADER.pack(_MARK, slot, number, start) + piece)


class OutputIntake:
    """Reassembles outputs. The child is not trusted: it can fill no more memory than its outputs take."""

    def __init__(self, layouts: Sequence[OutputLayout]) -> None:
        """``layouts`` are those of the slots."""
        self._layouts = layouts
        self._contents: dict[tuple[int, int], memoryview] = {}
        self._begun: dict[tuple[int, int], bytearray] = {}

    def take(self, message: bytes) -> bool:
        """Accept a piece of an output; False if ``message`` is something else.

        Raises:
            ValueError: the piece is not the next one of an output.
        """
        if not message.startswith(_MARK):
            return False
        if len(message) < _HEADER.size:
            raise ValueError("a piece of an output is truncated")
        _, slot, number, start = _HEADER.unpack_from(message)
        size_bytes = self._size_bytes(slot, number)
        place, piece = (slot, number), memoryview(message)[_HEADER.size :]
        begun = self._begun.get(place, b"")
        if place in self._contents or start != len(begun) or start + len(piece) > size_bytes:
            raise ValueError("a piece of an output is out of order")
        if len(piece) == size_bytes:
            self._contents[place] = piece
            return True
        buffer = self._begun.setdefault(place, bytearray())
        buffer += piece
        if len(buffer) == size_bytes:
            self._contents[place] = memoryview(self._begun.pop(place))
        return True

    def holds(self, slot: int) -> bool:
        """Whether all outputs of a slot have arrived."""
        sizes_bytes = self._layouts[slot].sizes_bytes
        return all(size == 0 or (slot, number) in self._contents for number, size in enumerate(sizes_bytes))

    def arrays(self, slot: int) -> list[Array]:
        """Return the outputs of a complete slot."""
        layout = self._layouts[slot]
        return layout.arrays([self._contents.get((slot, number), b"") for number in range(len(layout.tensors))])

    def drop(self, slot: int) -> None:
        """Free the memory of a slot."""
        for number in range(len(self._layouts[slot].tensors)):
            self._contents.pop((slot, number), None)

    def _size_bytes(self, slot: int, number: int) -> int:
        if slot >= len(self._layouts) or number >= len(self._layouts[slot].sizes_bytes):
            raise ValueError("a piece belongs to no output")
        return self._layouts[slot].sizes_bytes[number]
