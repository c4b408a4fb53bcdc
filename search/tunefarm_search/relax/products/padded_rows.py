"""Products whose number of rows no tile divides, such as that of the 197 tokens of a vision transformer.

A tile of one row loads a vector of the other matrix for each product. So sums are computed for a few rows more, which
read the last row again, and only the rows that were asked for are kept.
"""

from typing import Final

_TILES: Final = range(4, 17)
"""Rows that a tile in registers may have."""
_MULTIPLE: Final = 8
_MAX_MORE: Final = 1.15
"""Times as many rows. Measured for 197 instead of 200 rows (1.02), where sums ran 1.7 to 2.1 times as fast."""


def padded_rows(rows: int) -> int:
    """How many rows to compute for ``rows`` of them: as many where a tile divides them, or too many would be added."""
    if any(rows % tile == 0 for tile in _TILES):
        return rows
    padded = -(-rows // _MULTIPLE) * _MULTIPLE
    return padded if padded <= _MAX_MORE * rows else rows
