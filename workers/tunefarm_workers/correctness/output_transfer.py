"""Outputs on their way from the child that computed them to the process that compares them.

They go through the child's channel and end in private memory. Shared memory would be reachable for every process of the
same user through ``/proc/PID/fd``, for as long as it exists; a socket cannot be opened that way. So no other process
decides what is compared: neither what a candidate gave, nor what is right.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_workers.correctness.output_layout import OutputLayout
from tunefarm_workers.correctness.tolerance import Array

_MARK: Final = b"O"
"""No message in JSON begins with it."""
_HEADER: Final = struct.Struct("=c3xIIQ12x")
"""The slot, which of its outputs, and the offset in bytes. Of a size that keeps what follows aligned for any type."""
_PIECE_BYTES: Final = 4 << 20
"""Sent at once: a child's memory is limited, and each message is put together in it."""


def send_outputs(channel: Channel, slot: int, outputs: Iterable[memoryview]) -> None:
    """Send one set of outputs under the number ``slot``. Raises ``ChannelClosed``."""
    for number, output in enumerate(outputs):
        for start in range(0, output.nbytes, _PIECE_BYTES):
            piece = output[start : start + _PIECE_BYTES]
            channel.send(_HEADER.pack(_MARK, slot, number, start) + piece)


class OutputIntake:
    """Puts together what a child sends. The child is not trusted: it gets no more memory than its outputs take."""

    def __init__(self, layouts: Sequence[OutputLayout]) -> None:
        """``layouts``: what each slot holds."""
        self._layouts = layouts
        self._contents: dict[tuple[int, int], memoryview] = {}
        self._begun: dict[tuple[int, int], bytearray] = {}

    def take(self, message: bytes) -> bool:
        """Take in a piece of an output; False when ``message`` is something else.

        Raises:
            ValueError: it is none of the outputs that are to come.
        """
        if not message.startswith(_MARK):
            return False
        if len(message) < _HEADER.size:
            raise ValueError("a piece of an output is cut off")
        _, slot, number, start = _HEADER.unpack_from(message)
        size_bytes = self._size_bytes(slot, number)
        place, piece = (slot, number), memoryview(message)[_HEADER.size :]
        begun = self._begun.get(place, b"")
        if place in self._contents or start != len(begun) or start + len(piece) > size_bytes:
            raise ValueError("a piece of an output comes out of turn")
        if len(piece) == size_bytes:
            self._contents[place] = piece
            return True
        together = self._begun.setdefault(place, bytearray())
        together += piece
        if len(together) == size_bytes:
            self._contents[place] = memoryview(self._begun.pop(place))
        return True

    def holds(self, slot: int) -> bool:
        """Whether all outputs of a slot are there."""
        sizes_bytes = self._layouts[slot].sizes_bytes
        return all(size == 0 or (slot, number) in self._contents for number, size in enumerate(sizes_bytes))

    def arrays(self, slot: int) -> list[Array]:
        """The outputs of a slot that is there."""
        layout = self._layouts[slot]
        return layout.arrays([self._contents.get((slot, number), b"") for number in range(len(layout.tensors))])

    def drop(self, slot: int) -> None:
        """Let the memory of a slot go; what its outputs were is of no more use."""
        for number in range(len(self._layouts[slot].tensors)):
            self._contents.pop((slot, number), None)

    def _size_bytes(self, slot: int, number: int) -> int:
        if slot >= len(self._layouts) or number >= len(self._layouts[slot].sizes_bytes):
            raise ValueError("a piece belongs to no output")
        return self._layouts[slot].sizes_bytes[number]
