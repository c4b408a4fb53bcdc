"""Nesting depth and number of values of a JSON text, checked before it is decoded.

Decoders recurse, and a thousand brackets crash some of them; every ``[]`` takes 56 bytes and 0.3 us of the event loop.
"""

from collections.abc import Iterator
from typing import Final

PIECE_BYTES: Final = 1 << 17

_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_MARKS: Final = b"[]{},:"
_ALL_BUT_MARKS: Final = bytes(byte for byte in range(256) if byte not in _MARKS)


class JsonExtent:
    """Checks a JSON text piece by piece, at the speed of ``bytes.replace``: about 1 ms per megabyte."""

    def __init__(self, depth: int, values: int) -> None:
        """``depth`` limits nested brackets, ``values`` elements and members."""
        self._depth = depth
        self._values = values
        self._quotes_left = 2 * values + 2
        self._values_left = values
        self._in_string = False
        self._backslash = b""
        self._open = b""

    def excess(self, piece: bytes) -> str:
        """The limit that the text exceeds with its next piece; empty if none."""
        # Remove escapes first, so that each remaining quote begins or ends a string. A backslash at the end of a piece
        # waits for the next one.
        text = self._backslash + piece
        run = len(text) - len(text.rstrip(b"\\"))
        self._backslash = b"\\" if run % 2 else b""
        text = text[: len(text) - run].replace(b"\\\\", b"").replace(b'\\"', b"")
        quotes = text.count(b'"')
        self._quotes_left -= quotes
        if self._quotes_left < 0:
            return self._too_many
        outside = b"".join(text.split(b'"')[self._in_string :: 2])
        self._in_string ^= bool(quotes % 2)
        marks = outside.translate(None, _ALL_BUT_MARKS).translate(_BRACKETS)
        self._values_left -= marks.count(b",") + marks.count(b"[")
        if self._values_left < 0:
            return self._too_many
        return self._nested_too_deep(marks.translate(None, b",:"))

    @property
    def _too_many(self) -> str:
        return f"it has more than {self._values} values."

    def _nested_too_deep(self, brackets: bytes) -> str:
        """Each round removes the innermost pairs: what remains after ``depth`` rounds is deeper than that."""
        text = self._open + brackets
        for _ in range(self._depth):
            if b"[]" not in text:
                break
            text = text.replace(b"[]", b"")
        # Unbalanced closing brackets are not JSON, which the decoder reports better.
        self._open = text.lstrip(b"]")
        if b"[]" in self._open or len(self._open) > self._depth:
            return f"it is nested more than {self._depth} levels deep."
        return ""


def excess_of(text: str | bytes, depth: int, values: int) -> str:
    """The limit that a JSON text exceeds, as a clause with a full stop; empty if none."""
    extent = JsonExtent(depth, values)
    encoded = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    return next((found for piece in _pieces(encoded) if (found := extent.excess(piece))), "")


def _pieces(text: bytes) -> Iterator[bytes]:
    for begin in range(0, len(text), PIECE_BYTES):
        yield text[begin : begin + PIECE_BYTES]
