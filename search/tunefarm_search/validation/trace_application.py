"""Applies traces to TVM schedules, with the intrinsics that they tensorize with."""

from typing import Any

from tvm.s_tir.schedule import Trace as TvmTrace

from tunefarm_search.tvm.dot_products import is_dot_product, register_dot_products
from tunefarm_search.tvm.intrinsics import load_intrinsics
from tunefarm_search.validation.own_intrinsics import is_carried, register_carried


def apply_steps(steps: Any, schedule: Any, kind: str = "llvm", triple: str = "") -> None:
    """Apply a trace in JSON form to a TVM schedule, after loading the intrinsics that it tensorizes with.

    Raises TVM's error for a trace that does not apply.
    """
    names = intrinsics_in(steps)
    if names:
        register_dot_products()
    for name in names:
        if isinstance(name, str) and is_carried(name):
            register_carried(name)
        elif not isinstance(name, str) or not is_dot_product(name):
            load_intrinsics(kind, triple)
    TvmTrace.apply_json_to_schedule(steps, schedule)


def intrinsics_in(steps: Any) -> list[Any]:
    """What a trace tensorizes with."""
    instructions = steps[0] if isinstance(steps, list) and steps else None
    if not isinstance(instructions, list):
        return []
    tensorized = [step for step in instructions if isinstance(step, list) and step[:1] == ["Tensorize"]]
    return [step[2][0] if len(step) > 2 and isinstance(step[2], list) and step[2] else None for step in tensorized]
