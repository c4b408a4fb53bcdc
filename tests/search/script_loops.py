"""The loops of a scheduled module, read from its script."""

import re
from collections.abc import Callable

import numpy as np
import tvm


def iterations_around(module: tvm.IRModule, loop: re.Pattern[str], is_wanted: Callable[[str], bool]) -> int:
    """Number of times the first matching line runs, from the loops around it that ``loop`` matches; groups are extents.

    Raises:
        AssertionError: no line is wanted.
    """
    around: list[tuple[int, int]] = []
    for line in module["main"].script().splitlines():
        indent = len(line) - len(line.lstrip())
        around = [(other, count) for other, count in around if other < indent]
        if found := loop.search(line):
            extents = next(group for group in found.groups() if group)
            around.append((indent, int(np.prod([int(extent) for extent in extents.split(",")]))))
        if is_wanted(line):
            return int(np.prod([count for _, count in around], dtype=np.int64))
    raise AssertionError("the module has no such line")
