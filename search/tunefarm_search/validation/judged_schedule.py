"""Applies traces to modules and checks the results against the allow-lists; nothing else applies untrusted traces."""

from collections.abc import Collection
from typing import Any

from tvm.s_tir import Schedule

from tunefarm_search.tvm.tensor_intrinsics.matrix_tiles import tiles_named
from tunefarm_search.validation.judgement import NotPermitted, require_permitted
from tunefarm_search.validation.trace_application import apply_steps, intrinsics_in


def judged_schedule(
    module: Any,
    steps: Any,
    *,
    kind: str = "llvm",
    triple: str = "",
    callees: Collection[str] = (),
    seed: int | None = None,
) -> Any:
    """Return a TVM schedule of ``module`` with a trace's JSON value applied. Its module may call ``callees``.

    Checks the resulting module and not the text of the trace: values in it may be JSON in strings in JSON, and only the
    module shows what they mean. Applying may crash TVM: call it in a confined child.

    Raises:
        NotPermitted: the scheduled module contains something that is on no allow-list.
        Exception: TVM's error for a trace that does not apply.
    """
    with_tiles = _names_tiles(steps)
    if with_tiles:
        # Only our own intrinsics may add these instructions: their form shows what they access.
        require_permitted(module, callees)
    schedule = Schedule(module, seed=seed)
    apply_steps(steps, schedule, kind, triple)
    require_permitted(schedule.mod, callees, with_tiles=with_tiles)
    return schedule


def _names_tiles(steps: Any) -> bool:
    """Whether a trace tensorizes with tiles.

    Raises NotPermitted if it does not use both parts of one intrinsic: one part sets the shapes that the other assumes.
    """
    names = {name for name in intrinsics_in(steps) if isinstance(name, str) and tiles_named(name) is not None}
    for tiles in map(tiles_named, names):
        if tiles is not None and names != {tiles.clearing, tiles.adding}:
            raise NotPermitted("tensorizes with parts of several intrinsics for tiles, which is not allowed")
    return bool(names)
