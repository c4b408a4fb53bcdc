"""How much of a nest the compiler unrolls, from the extents of its loops and its limit of steps."""

import numpy as np

from tunefarm_search.features.loop_nest import FloatArray, LoopNest
from tunefarm_search.space.decisions import Rows, SketchSpace

_ANNOTATIONS = ("meta_schedule.unroll_explicit", "meta_schedule.unroll_implicit")


def unroll_steps(sketch: SketchSpace, rows: Rows) -> FloatArray:
    """Maximum number of unrolled steps of a body at each point; shape [points]. 0 if the sketch requests none."""
    steps = sketch.steps.instructions
    asked = {str(step.inputs[1]) for step in steps if step.kind == "Annotate" and step.attributes[0] in _ANNOTATIONS}
    for number, column in enumerate(sketch.columns):
        if asked & set(steps[column.instruction].outputs):
            values = np.array(column.values, np.float64)
            return np.asarray(values[column.table[rows[:, number], 0]])
    return np.zeros(len(rows))


def unrolled(nest: LoopNest, extents: FloatArray, steps: FloatArray) -> dict[str, FloatArray]:
    """How far each iterator advances inside the unrolled body, and the number of its steps.

    The innermost loop is vectorised; loops around it are unrolled while all of them fit. ``skipped`` is the factor by
    which this reduces work: if all iterators of a stride's condition are unrolled far enough, the compiler knows for
    each step whether the condition holds, and omits the steps for which it does not.

    Args:
        nest: the loops.
        extents: of the loops, from the outermost inwards; shape [points, loops].
        steps: from ``unroll_steps``; shape [points].
    """
    inside = np.ones((len(extents), len(nest.pattern.extents)))
    body = np.ones(len(extents))
    goes_on = np.ones(len(extents), bool)
    for place in range(len(nest.parts) - 1 - nest.ends_in_results, -1, -1):
        goes_on &= body * extents[:, place] <= steps
        taken = np.where(goes_on, extents[:, place], 1.0)
        body *= taken
        inside[:, nest.parts[place].iterator] *= taken
    skipped = np.ones(len(extents))
    for condition in nest.pattern.conditions:
        is_known = (inside[:, condition.iterators] % condition.divisor == 0).all(axis=1)
        skipped *= np.where(is_known, condition.divisor, 1.0)
    named = {f"unrolled_{number}": column for number, column in enumerate(inside.T)}
    return {"unrolled": body, "skipped": skipped, **named}
