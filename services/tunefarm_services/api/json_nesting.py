"""How deep a JSON text is nested, found without parsing it: parsers recurse, and a thousand brackets end some."""

import re
from typing import Final

# Possessive, for otherwise the way back from each character is kept: 2 GB for a string of 16 MiB.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_ALL_OTHERS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def nests_deeper(text: bytes, depth: int) -> bool:
    """Whether ``text`` opens more than ``depth`` brackets within each other, or brackets that it never closes.

    Each round removes the innermost pairs, so that the work is bounded by ``depth`` passes over the text at the
    speed of ``bytes.replace``.
    """
    brackets = _STRING.sub(b"", text).translate(_BRACKETS, _ALL_OTHERS)
    for _ in range(depth):
        if b"[]" not in brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    return len(brackets) > 0 and b"[" in brackets and (b"[]" in brackets or len(brackets) > depth)
