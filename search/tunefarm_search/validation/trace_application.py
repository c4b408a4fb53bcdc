"""Applies traces to TVM schedules, with the intrinsics that they tensorize with."""

from typing import Any

from tvm.s_tir.schedule import Trace as TvmTrace

from tunefarm_search.tvm.tensor_intrinsics.of_tvm import load_intrinsics
from tunefarm_search.tvm.tensor_intrinsics.ours import register_ours
from tunefarm_search.validation.own_intrinsics import is_carried, register_carried


def apply_steps(steps: Any, schedule: Any, kind: str = "llvm", triple: str = "") -> None:
    """Apply a trace in JSON form to a TVM schedule, after loading the intrinsics that it tensorizes with.

    Raises TVM's error for a trace that does not apply.
    """
    for name in intrinsics_in(steps):
        if isinstance(name, str) and is_carried(name):
            register_carried(name)
        elif not isinstance(name, str) or not register_ours(name):
            load_intrinsics(kind, triple)
    TvmTrace.apply_json_to_schedule(steps, schedule)


def intrinsics_in(steps: Any) -> list[Any]:
    """What a trace tensorizes with."""
    instructions = steps[0] if isinstance(steps, list) and steps else None
    if not isinstance(instructions, list):
        return []
    tensorized = [step for step in instructions if isinstance(step, list) and step[:1] == ["Tensorize"]]
    return [step[2][0] if len(step) > 2 and isinstance(step[2], list) and step[2] else None for step in tensorized]
