"""Escaping of untrusted text for display: characters that control a terminal, or hide or reorder others."""

import re
from typing import Final

_OBEYED: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1: cursor movement, titles, clipboard access
    "\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # zero width, bidirectional
    "\ud800-\udfff"  # lone surrogates, which no encoding can write
    "\U000e0000-\U000e007f"  # tags: invisible copies of ASCII
)
_IN_TEXT: Final = re.compile(f"[{_OBEYED}]")
_IN_LINE: Final = re.compile(f"[\t\n{_OBEYED}]")


def visible(text: str) -> str:
    r"""Escape every character in ``text`` that controls a terminal, as in ``\x1b``.

    Tabs and newlines stay.
    """
    return _IN_TEXT.sub(_escape, text)


def visible_line(text: str) -> str:
    """Escape like ``visible``, and also tabs and newlines, so that untrusted text cannot end a line or cell."""
    return _IN_LINE.sub(_escape, text)


def visible_json(text: str) -> str:
    """Escape the same characters in JSON text as JSON escapes, which keeps its meaning for programs."""
    return _IN_TEXT.sub(lambda found: "".join(rf"\u{unit:04x}" for unit in _utf16(found.group())), text)


def _escape(found: "re.Match[str]") -> str:
    named = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}.get(found.group())
    if named is not None:
        return named
    code = ord(found.group())
    return rf"\x{code:02x}" if code < 0x100 else rf"\u{code:04x}" if code < 0x10000 else rf"\U{code:08x}"


def _utf16(character: str) -> list[int]:
    encoded = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(encoded[start : start + 2]) for start in range(0, len(encoded), 2)]
