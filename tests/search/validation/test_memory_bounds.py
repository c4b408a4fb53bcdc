"""Proves that accesses stay inside their buffers or leave them, or leaves them to a check at run time."""

import json
from typing import Any

import pytest
import tvm
from tvm import tirx

from tests.search import stray_functions
from tests.search.conftest import te_workload
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import tvm_target
from tunefarm_search.validation.index_range import Span, fit
from tunefarm_search.validation.memory_bounds import bounds_of
from tunefarm_search.validation.trace_application import apply_steps

OUTSIDE, OPAQUE, OPEN = stray_functions.outside(), stray_functions.opaque(), stray_functions.open_at_run_time()


@pytest.mark.parametrize("name", OUTSIDE)
def test_bounds_report_access_outside_buffer(name: str) -> None:
    make, buffer = OUTSIDE[name]
    bounds = bounds_of(make())
    assert bounds.outside is not None
    assert f"buffer {buffer} has memory for " in bounds.outside
    assert f"{buffer}[" in bounds.outside


@pytest.mark.parametrize("name", OPAQUE)
def test_bounds_report_access_through_pointer(name: str) -> None:
    make, part = OPAQUE[name]
    reason = bounds_of(make()).opaque
    assert reason is not None
    assert part in reason


@pytest.mark.parametrize("name", OPEN)
def test_bounds_leave_data_dependent_access_to_check(name: str) -> None:
    bounds = bounds_of(OPEN[name][0]())
    assert bounds.outside is None
    assert bounds.opaque is None
    assert bounds.checked is not None
    assert bounds.reads_indices


def test_bounds_report_last_value_of_index() -> None:
    make, _ = OUTSIDE["reads far beyond"]
    assert "A[i + 5000, j] is element 40063 at i = 7, j = 7." in str(bounds_of(make()).outside)


@pytest.mark.parametrize(("factor", "is_proven"), [(1 << 20, True), (1 << 30, False)])
def test_bounds_do_not_prove_overflowing_index(factor: int, is_proven: bool) -> None:
    index = tirx.Var("i", "int32")
    scaled = tirx.FloorDiv(tirx.Mul(index, tirx.const(factor, "int32")), tirx.const(factor, "int32"))
    loop = Span(index, tirx.const(0, "int32"), tirx.const(8, "int32"))
    assert fit([(scaled, 8)], [loop]) is is_proven


def test_bounds_ignore_condition_on_changing_tensor() -> None:
    module = stray_functions.with_body(
        'n = T.alloc_buffer((1,), "int32")',
        "n[0] = 0",
        "for j in range(8):",
        "    if 0 <= n[0] and n[0] < 8:",
        "        n[0] = 90000",
        "        B[v, n[0]] = A[v, j]",
    )
    assert bounds_of(module).checked is not None


@pytest.mark.parametrize(
    ("fragment", "offset", "is_proven"),
    [
        ("lane // 16", "lane // 16 * 384 + 8", True),
        ("0", "392", True),
        ("0", "393", False),
        ("0", "0 - lane", False),
        ("lane // 15", "0", False),
    ],
)
def test_bounds_prove_accesses_of_tensor_cores(fragment: str, offset: str, is_proven: bool) -> None:
    assert bounds_of(stray_functions.of_a_warp(fragment, offset)).is_proven is is_proven


@pytest.mark.parametrize("name", ["GMM", "C2D", "DEP", "T2D", "SFM", "CBR"])
@pytest.mark.quick_cases(3)
def test_bounds_prove_schedules_of_search(name: str, target: Target) -> None:
    module = load_json(te_workload(name).module_json)
    space = search_space(module, target, "stable", Space())
    assert bounds_of(module).is_proven
    proven = [
        bounds_of(schedule.mod, tvm_target(target)).is_proven
        for schedule in _random_schedules(space, tvm_target(target), draws=4)
    ]
    assert proven
    assert all(proven)


def _random_schedules(space: Any, target: Any, draws: int) -> list[Any]:
    """Schedules with random decisions that the postprocessors accept."""
    drawn = []
    for seed in range(1, draws + 1):
        schedule = tvm.s_tir.Schedule(space.module, seed=seed)
        with target:
            apply_steps(json.loads(space.sketches[seed % len(space.sketches)].steps.sketch.text), schedule)
            if all(step.apply(schedule) for step in space.postprocessors):
                drawn.append(schedule)
    return drawn


@pytest.mark.parametrize("check", ["InstrumentBoundCheckers", "OOBChecker"])
def test_tvm_bound_checks_miss_these_accesses(check: str) -> None:
    """If they ever detect these, they can replace our check."""
    module = OPEN["looks every other row up"][0]()
    if check == "OOBChecker":
        tvm.s_tir.analysis.OOBChecker()(module)
        return
    lower, _, _ = tirx.get_tir_pipeline("s_tir")
    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    with tvm.transform.PassContext(config={"tirx.instrument_bound_checkers": True}):
        lowered = lower(tirx.transform.BindTarget(target.with_host(target))(module))
    assert "OUT OF THE BOUNDS" not in lowered.script()
