import pytest

from tests.search.conftest import te_workload
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.records.schedule_view import lowered_script, schedule_view
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.tvm.target import host_target


def test_schedule_view_shows_script_python_and_difference(matmul_space: SearchSpace) -> None:
    applied = Scheduler(matmul_space).apply(Point(2, tuple(int(s) // 2 for s in matmul_space.sketches[2].sizes)))
    assert isinstance(applied, Scheduled)
    view = schedule_view(te_workload("GMM").module_json, applied.trace)
    assert "T.parallel" in view.script
    assert "sch.sample_perfect_tile" in view.python
    assert any(line.startswith("+") and "T.parallel" in line for line in view.difference.splitlines())


def test_schedule_view_rejects_trace_of_another_workload() -> None:
    with pytest.raises(BadInput, match="does not fit"):
        schedule_view(te_workload("SFM").module_json, Trace(text='[[["GetSBlock",[],["Z","main"],["b0"]]],[]]'))


def test_lowered_script_has_flat_loops_and_no_checks_of_arguments(matmul_space: SearchSpace) -> None:
    applied = Scheduler(matmul_space).apply(Point(2, tuple(int(s) // 2 for s in matmul_space.sketches[2].sizes)))
    assert isinstance(applied, Scheduled)
    text = lowered_script(te_workload("GMM").module_json, applied.trace, host_target(2))
    assert "__tvm_ffi_main" in text
    assert "T.sblock" not in text
    assert "assert" not in text
