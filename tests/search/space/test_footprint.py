"""The computed footprint of a tile equals the count of its accesses."""

from itertools import product

import numpy as np
import pytest

from tunefarm_search.features.footprint import LINE_BYTES, contiguous_runs, elements, vectors
from tunefarm_search.space.access_pattern import BufferAccess

LANES = 16
STRIDED_WINDOW = BufferAccess("image", 4, (64, 64), ((2.0, 1.0, 0.0), (0.0, 0.0, 1.0)))
"""Rows ``2 * h + kernel``, columns ``c``: the input of a convolution with a stride of two."""
SPREAD_COLUMNS = BufferAccess("image", 4, (64, 64), ((0.0, 0.0, 1.0), (2.0, 1.0, 0.0)))
"""The same along the columns."""


def touched(access: BufferAccess, tile: tuple[int, ...]) -> set[tuple[int, ...]]:
    found = set()
    for step in product(*(range(extent) for extent in tile)):
        places = [sum(int(s) * n for s, n in zip(steps, step, strict=True)) for steps in access.strides]
        found.add(tuple(places))
    return found


TILES = [(1, 1, 1), (4, 1, 1), (4, 2, 1), (4, 3, 2), (1, 3, 16), (8, 1, 33), (2, 2, 64), (5, 7, 3)]


@pytest.mark.parametrize("access", [STRIDED_WINDOW, SPREAD_COLUMNS], ids=["rows", "columns"])
@pytest.mark.parametrize("tile", TILES)
def test_elements_exclude_those_skipped_by_stride(access: BufferAccess, tile: tuple[int, ...]) -> None:
    assert elements(access, np.array([tile], float)) == [len(touched(access, tile))]


@pytest.mark.parametrize("tile", TILES)
def test_lines_match_accessed_elements(tile: tuple[int, ...]) -> None:
    per_line = LINE_BYTES // STRIDED_WINDOW.element_bytes
    counted = {(row, column // per_line) for row, column in touched(STRIDED_WINDOW, tile)}
    assert contiguous_runs(STRIDED_WINDOW, np.array([tile], float)).lines() == [len(counted)]


@pytest.mark.parametrize("tile", TILES)
def test_vectors_cover_box_row_by_row(tile: tuple[int, ...]) -> None:
    rows = [row for row, _ in touched(STRIDED_WINDOW, tile)]
    columns = [column for _, column in touched(STRIDED_WINDOW, tile)]
    height, width = max(rows) - min(rows) + 1, max(columns) - min(columns) + 1
    assert vectors(STRIDED_WINDOW, np.array([tile], float), LANES) == [height * -(-width // LANES)]


KERNELS = BufferAccess(
    "weights",
    4,
    (32, 16, 3, 3),
    ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)),
)
"""The weights of a convolution: output and input channels, and a window."""
COLUMN = BufferAccess("matrix", 4, (768, 3072), ((1.0, 0.0), (0.0, 1.0)))


@pytest.mark.parametrize("tile", [(1, 1, 1, 1), (1, 2, 3, 3), (4, 8, 3, 3), (4, 16, 3, 3), (32, 16, 3, 3)])
def test_lines_of_covered_dimensions_are_shared(tile: tuple[int, ...]) -> None:
    sizes = (16 * 9 * 4, 9 * 4, 3 * 4, 4)
    places = touched(KERNELS, tile)
    counted = {sum(n * size for n, size in zip(place, sizes, strict=True)) // LINE_BYTES for place in places}
    assert contiguous_runs(KERNELS, np.array([tile], float)).lines() == [len(counted)]


@pytest.mark.parametrize(("tile", "ways"), [((48, 64), 48), ((768, 32), 768), ((1, 64), 1), ((4, 3072), 12)])
def test_rows_a_page_apart_share_sets(tile: tuple[int, int], ways: int) -> None:
    assert contiguous_runs(COLUMN, np.array([tile], float)).lines_per_set(4096) == [ways]


def test_rows_at_odd_distances_use_all_sets() -> None:
    padded = BufferAccess("matrix", 4, (768, 3088), COLUMN.strides)  # 12 KiB and a line
    assert contiguous_runs(padded, np.array([(48, 64)], float)).lines_per_set(4096) == [3]
