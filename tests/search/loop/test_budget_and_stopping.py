from tunefarm_schemas.tuning.job import Effort, StopReason
from tunefarm_search.loop.budget import DEFAULTS, TaskBudget, next_task
from tunefarm_search.strategy.stopping import TaskCourse, reason_to_stop_all, reason_to_stop_task


def budget(weight: float, latencies_s: list[float | None]) -> TaskBudget:
    made = TaskBudget(weight, submitted=len(latencies_s))
    for latency_s in latencies_s:
        made.note(latency_s)
    return made


def test_next_task_warms_up_every_task_first() -> None:
    assert next_task([budget(1, [1e-3] * DEFAULTS.warm_up_trials), budget(1, [])], [True, True]) == 1


def test_next_task_prefers_heavier_task() -> None:
    course: list[float | None] = [1e-3] * 32
    assert next_task([budget(1, course), budget(5, course)], [True, True]) == 1


def test_next_task_prefers_improving_task() -> None:
    falling: list[float | None] = [1e-3 * 0.97**step for step in range(64)]
    flat: list[float | None] = [falling[-1]] * 64
    assert next_task([budget(1, flat), budget(1, falling)], [True, True]) == 1


def test_next_task_skips_finished_task() -> None:
    course: list[float | None] = [1e-3] * 32
    assert next_task([budget(1, course), budget(9, course)], [True, False]) == 0
    assert next_task([budget(1, course)], [False]) is None


def test_next_task_limits_task_without_valid_results() -> None:
    hopeless = budget(1, [None] * 200)
    assert next_task([hopeless, budget(1, [1e-3] * 32)], [True, True]) == 1


def test_plateau_counts_from_last_significant_gain() -> None:
    course = TaskCourse()
    for latency_s in (1.0, 0.5, 0.499, None, 0.6):
        course = course.after(latency_s)
    assert (course.trials, course.best_latency_s, course.trials_at_last_gain) == (5, 0.499, 2)
    assert reason_to_stop_task(Effort(trials=100, plateau_trials=3), course) is StopReason.PLATEAU
    assert reason_to_stop_task(Effort(trials=100, plateau_trials=4), course) is None


def test_target_latency_stops_task() -> None:
    assert (
        reason_to_stop_task(Effort(trials=9, target_latency_s=0.5), TaskCourse(1, 0.5, 1)) is StopReason.TARGET_LATENCY
    )


def test_trial_and_time_limits_stop_job() -> None:
    effort = Effort(trials=10, seconds=2.0)
    assert reason_to_stop_all(effort, 9, 1.9) is None
    assert reason_to_stop_all(effort, 10, 0.0) is StopReason.TRIALS
    assert reason_to_stop_all(effort, 0, 2.0) is StopReason.SECONDS
