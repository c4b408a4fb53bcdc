"""What a fat binary of CUDA contains."""

import struct

MAGIC = 0xBA55ED50
_KINDS = {1: "intermediate", 2: "machine"}


def contents(image: bytes) -> set[tuple[str, int]]:
    """The code in ``image``: intermediate or of a machine, each with the number of its architecture."""
    magic, _, header_bytes, body_bytes = struct.unpack_from("<IHHQ", image)
    assert magic == MAGIC
    at, end = header_bytes, header_bytes + body_bytes
    found = set()
    while at < end:
        kind, _, header_bytes, code_bytes = struct.unpack_from("<HHIQ", image, at)
        [architecture] = struct.unpack_from("<I", image, at + 28)
        assert code_bytes > 0
        found.add((_KINDS[kind], architecture))
        at += header_bytes + code_bytes
    return found
