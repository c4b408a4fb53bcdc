"""How much of a nest the compiler will unroll, from the extents of its loops and the number of steps it may take."""

import numpy as np

from tunefarm_search.decisions import Rows, SketchSpace
from tunefarm_search.loop_nest import FloatArray, LoopNest

_ANNOTATIONS = ("meta_schedule.unroll_explicit", "meta_schedule.unroll_implicit")


def unroll_steps(sketch: SketchSpace, rows: Rows) -> FloatArray:
    """How many steps of a body may be unrolled at each point; shape [points]. 0 where the sketch does not ask."""
    steps = sketch.steps.instructions
    asked = {str(step.inputs[1]) for step in steps if step.kind == "Annotate" and step.attributes[0] in _ANNOTATIONS}
    for number, column in enumerate(sketch.columns):
        if asked & set(steps[column.instruction].outputs):
            values = np.array(column.values, np.float64)
            return np.asarray(values[column.table[rows[:, number], 0]])
    return np.zeros(len(rows))


def unrolled(nest: LoopNest, extents: FloatArray, steps: FloatArray) -> dict[str, FloatArray]:
    """By how much each iterator advances inside of the unrolled body, and how many steps that is.

    The innermost loop becomes a vector; loops around it are unrolled for as long as all of them fit. Conditions on an
    iterator that is unrolled vanish, as those of padding and of strides do.

    Args:
        nest: the loops.
        extents: of the loops, from the outermost inwards; shape [points, loops].
        steps: as ``unroll_steps`` tells; shape [points].
    """
    inside = np.ones((len(extents), len(nest.pattern.extents)))
    body = np.ones(len(extents))
    goes_on = np.ones(len(extents), bool)
    for place in range(len(nest.parts) - 1 - bool(nest.inner_spatial), -1, -1):
        goes_on &= body * extents[:, place] <= steps
        taken = np.where(goes_on, extents[:, place], 1.0)
        body *= taken
        inside[:, nest.parts[place].iterator] *= taken
    return {"unrolled": body, **{f"unrolled_{number}": column for number, column in enumerate(inside.T)}}
