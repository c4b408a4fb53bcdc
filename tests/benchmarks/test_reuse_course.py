import pytest

from benchmarks.models.reuse.model_course import TrialCost, course, reached

CALLS = {"a": 2.0, "b": 1.0}
COSTS = (
    TrialCost("a", 0, 1.0, 10.0),
    TrialCost("b", 0, 1.0, 8.0),
    TrialCost("a", 1, 2.0, None),
    TrialCost("a", 2, 3.0, 5.0),
    TrialCost("a", 3, 1.0, 7.0),
)


def test_course_sums_device_time_and_calls_times_the_best_latency() -> None:
    points = course(COSTS, CALLS, before=0)
    assert [point.trials for point in points] == [0, 1, 2, 3, 4, 5]
    assert [point.device_s for point in points] == [0.0, 1.0, 2.0, 4.0, 7.0, 8.0]
    assert [point.model_s for point in points] == [None, None, 28.0, 28.0, 18.0, 18.0]


def test_course_counts_another_attempt_as_device_time_alone() -> None:
    points = course((*COSTS, TrialCost("a", 2, 4.0, 6.0)), CALLS, before=0)
    assert [(point.trials, point.device_s) for point in points[-2:]] == [(5, 8.0), (5, 12.0)]


def test_course_after_earlier_trials_knows_their_latencies_and_not_their_cost() -> None:
    points = course(COSTS, CALLS, before=3)
    assert [(point.trials, point.device_s, point.model_s) for point in points] == [
        (0, 0.0, 28.0),
        (1, 3.0, 18.0),
        (2, 4.0, 18.0),
    ]


def test_run_without_a_trial_costs_nothing_and_has_a_time() -> None:
    (point,) = course(COSTS, CALLS, before=len(COSTS))
    assert (point.trials, point.device_s, point.model_s) == (0, 0.0, 18.0)


@pytest.mark.parametrize(("goal_s", "device_s"), [(28.0, 2.0), (20.0, 7.0), (17.0, None)])
def test_goal_is_reached_at_the_first_point_that_fast(goal_s: float, device_s: float | None) -> None:
    point = reached(course(COSTS, CALLS, before=0), goal_s)
    assert (None if point is None else point.device_s) == device_s
