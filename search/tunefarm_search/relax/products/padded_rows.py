"""Products whose number of rows no good tile divides, such as that of the 197 tokens of a vision transformer.

A tile of one row loads a vector of the other matrix for each product. So sums are computed for a few rows more, which
read the last row again, and only the rows that were asked for are kept.
"""

from typing import Any, Final

from tvm import te

_TILES: Final = range(4, 17)
"""Rows that a tile in registers may have."""
_MULTIPLE: Final = 8
_MAX_MORE: Final = 1.15
"""Times as many rows. Measured for 197 instead of 200 rows (1.02), where sums ran 1.7 to 2.1 times as fast."""
_TILES_OF_FEW_REGISTERS: Final = (4, 5)
"""Rows of tiles that leave room for two vectors of each row, and for what is loaded, in 16 registers."""
_MAX_MORE_FOR_TWO_VECTORS: Final = 1.05
"""Times as many rows. 49, 77 and 98 rows ran 1.2 times as fast with 1 to 4% more; 7% or more gained nothing."""


def padded_rows(rows: int, *, has_few_registers: bool) -> int:
    """How many rows to compute for ``rows`` of them: as many where a tile divides them, or too many would be added.

    With few registers, a tile that has two vectors of each row is worth a few rows more: one of 7 rows has one, and
    loads an element for each product.
    """
    if has_few_registers:
        few = min(-(-rows // tile) * tile for tile in _TILES_OF_FEW_REGISTERS)
        if few <= _MAX_MORE_FOR_TWO_VECTORS * rows:
            return few
    if any(rows % tile == 0 for tile in _TILES):
        return rows
    padded = -(-rows // _MULTIPLE) * _MULTIPLE
    return padded if padded <= _MAX_MORE * rows else rows


def row_to_read(row: Any, rows: int, padded: int) -> Any:
    """The row of ``rows`` that a sum for one of the ``padded`` ones reads: itself, or the last one."""
    return row if padded == rows else te.min(row, rows - 1)
