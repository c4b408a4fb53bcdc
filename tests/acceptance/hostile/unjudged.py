"""Disables the check of modules in a fork server's children, to test the layers behind it."""

from typing import Any

import tunefarm_workers.builder.scheduled_module as scheduled_module


def arm() -> None:
    from tunefarm_workers.child.preload import preload

    preload()
    scheduled_module.judged_schedule = unjudged  # type: ignore[assignment]


def unjudged(module: Any, steps: Any, *, kind: str, callees: Any) -> Any:
    import tvm

    from tunefarm_search.validation.trace_application import apply_steps

    del callees
    schedule = tvm.s_tir.Schedule(module)
    apply_steps(steps, schedule, kind)
    return schedule
