"""Schedules are built, checked and timed in separate processes."""

import json

import pytest

from benchmarks.child_process import CommandFailed
from benchmarks.comparison.retimed import PROCESSES, NamedSchedule, RetimeOrder, retime

pytestmark = pytest.mark.faults

UNSCHEDULED = json.dumps([[], []])
PARALLEL = json.dumps(
    [
        [
            ["GetSBlock", [], ["Z", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2", "l3", "l4"]],
            ["Parallel", ["l2"], [], []],
        ],
        [],
    ]
)


def test_retime_times_in_common_rounds_and_checks_results() -> None:
    schedules = (NamedSchedule(name="stock", trace=UNSCHEDULED), NamedSchedule(name="incumbent 0", trace=PARALLEL))
    answer = retime(RetimeOrder(workload="GMM", cores=1, schedules=schedules, rounds=2), timeout_s=120)
    assert [schedule.name for schedule in answer.schedules] == ["stock", "incumbent 0"]
    assert all(schedule.agrees and len(schedule.samples_s) == 2 * PROCESSES for schedule in answer.schedules)
    assert answer.named("stock").latency_s > 0


def test_retime_fails_for_trace_that_does_not_replay() -> None:
    broken = NamedSchedule(name="stock", trace=json.dumps([[["GetSBlock", [], ["nothing", "main"], ["b0"]]], []]))
    with pytest.raises(CommandFailed, match="exited with"):
        retime(RetimeOrder(workload="GMM", cores=1, schedules=(broken,)), timeout_s=120)
