"""Patches between files of two releases."""

import zstandard

_LEVEL = 19


def make_delta(old: bytes, new: bytes) -> bytes:
    """The patch that makes ``new`` of ``old``: a Zstandard frame with ``old`` as its raw dictionary."""
    dictionary = zstandard.ZstdCompressionDict(old, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return zstandard.ZstdCompressor(level=_LEVEL, dict_data=dictionary).compress(new)
