"""The one place where a trace meets a module: applied, and the outcome held against the allow-lists."""

from collections.abc import Collection
from typing import Any

from tvm.s_tir import Schedule

from tunefarm_search.tvm.intrinsics import apply_steps
from tunefarm_search.validation.judgement import require_permitted


def judged_schedule(
    module: Any,
    steps: Any,
    *,
    kind: str = "llvm",
    triple: str = "",
    callees: Collection[str] = (),
    seed: int | None = None,
) -> Any:
    """A TVM schedule of ``module`` with a trace's JSON value applied. Its module may call ``callees``.

    What the text of a trace says is not looked at: values in it may be JSON in strings in JSON, and only the module
    that comes out tells what all of it meant. Applying may crash TVM: call it in a confined child.

    Raises:
        NotPermitted: the scheduled module holds what is on no allow-list.
        Exception: whatever TVM raises for a trace that does not fit.
    """
    schedule = Schedule(module, seed=seed)
    apply_steps(steps, schedule, kind, triple)
    require_permitted(schedule.mod, callees)
    return schedule
