"""The tasks of a model under one budget, on recorded tables: a sum of calls times latency is to become small."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.search.loop.test_loop import WatchedFarm, task_of
from tunefarm_schemas.tuning.job import Effort, StopReason
from tunefarm_search.loop.budget import TaskBudget, next_task, small_tasks
from tunefarm_search.loop.loop import SearchLoop
from tunefarm_search.loop.progress import TaskProgress
from tunefarm_search.loop.task_search import SearchTask
from tunefarm_search.ports import KnownTrial, RecordsInMemory
from tunefarm_search.replay.replay_table import ReplayTable

Tables = Mapping[str, ReplayTable]


@pytest.fixture(scope="session")
def tables(small_table: ReplayTable, pool_table: ReplayTable, convolution_table: ReplayTable) -> Tables:
    return {"small": small_table, "matmul": pool_table, "convolution": convolution_table}


def of_model(tables: Tables, calls: Mapping[str, float], *, one_of: int = 6) -> list[SearchTask]:
    # The tables contain their own candidates only, not the schedules without a trial. Some of them are soon replayed.
    some = {name: replace(tables[name], trials=tables[name].trials[::one_of]) for name in calls}
    return [
        replace(task_of(some[name], name), weight=weight, of_model=True, pool=some[name].traces())
        for name, weight in calls.items()
    ]


def searched(
    tables: Tables, tasks: list[SearchTask], effort: Effort, **settings: object
) -> tuple[WatchedFarm, dict[str, TaskProgress]]:
    farm = WatchedFarm(tables)  # type: ignore[arg-type]
    summaries = SearchLoop(tasks, farm, farm, effort, **settings).run()  # type: ignore[arg-type]
    return farm, {summary.exploration_id: summary for summary in summaries}


def trials_of(farm: WatchedFarm) -> Counter[str]:
    return Counter(candidate.exploration_id for candidate in farm.candidates)


def of_model_budget(weight: float, latencies_s: list[float | None]) -> TaskBudget:
    made = TaskBudget(weight, submitted=len(latencies_s), of_model=True)
    for latency_s in latencies_s:
        made.note(latency_s)
    return made


def test_search_measures_one_schedule_of_each_task_before_it_compares_them(tables: Tables) -> None:
    farm, _ = searched(tables, of_model(tables, {"small": 1, "matmul": 1, "convolution": 1}), Effort(trials=5))
    assert {candidate.exploration_id for candidate in farm.candidates[:3]} == set(tables)
    assert farm.batches[:3] == [1, 1, 1]


def test_trials_go_where_the_models_time_is_spent(tables: Tables) -> None:
    few_calls, many_calls = {"matmul": 1.0, "convolution": 1.0}, {"matmul": 4000.0, "convolution": 1.0}
    few, many = (
        trials_of(searched(tables, of_model(tables, calls), Effort(trials=20))[0]) for calls in (few_calls, many_calls)
    )
    assert few["convolution"] > few["matmul"]
    assert many["matmul"] > many["convolution"]


def test_task_with_a_small_share_keeps_its_first_schedule(tables: Tables) -> None:
    farm, ends = searched(tables, of_model(tables, {"small": 1, "convolution": 10}), Effort(trials=8))
    assert trials_of(farm) == {"small": 1, "convolution": 7}
    assert ends["small"].stop_reason is StopReason.SMALL_SHARE
    assert ends["convolution"].stop_reason is StopReason.TRIALS


def test_answered_task_gets_no_trial(tables: Tables) -> None:
    first, _ = searched(tables, of_model(tables, {"convolution": 1}), Effort(trials=3))
    results = {measurement.candidate_number: measurement.result for measurement in first.delivered}
    known = [KnownTrial(candidate, results[candidate.number], 0.1) for candidate in first.candidates]
    records = RecordsInMemory(trials={"convolution": known})
    answered, other = of_model(tables, {"convolution": 10, "small": 1})
    farm, ends = searched(tables, [replace(answered, is_answered=True), other], Effort(trials=9), records=records)
    # The other task's share of the time of both is small, so that it gets its first trial only.
    assert trials_of(farm) == {"small": 1}
    assert ends["small"].stop_reason is StopReason.SMALL_SHARE


@pytest.mark.faults
def test_search_by_gain_saves_more_of_the_models_time_than_equal_shares(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After as many trials of whole tables; most of the model's time is in one of three tasks."""
    calls = {"small": 20.0, "matmul": 3.0, "convolution": 1.0}

    def excess() -> float:
        _, ends = searched(tables, of_model(tables, calls, one_of=1), Effort(trials=60))
        return sum(calls[name] * (end.best_latency_s - tables[name].best_latency_s) for name, end in ends.items())

    by_gain = excess()
    monkeypatch.setattr("tunefarm_search.loop.loop.next_task", _in_turns)
    assert by_gain < excess()


def _in_turns(budgets: list[TaskBudget], active: list[bool]) -> int | None:
    return min((n for n, is_active in enumerate(active) if is_active), key=lambda n: budgets[n].seen, default=None)


def test_next_task_waits_for_the_first_result_of_a_models_task() -> None:
    waiting = TaskBudget(1, submitted=1, of_model=True)
    assert next_task([waiting], [True]) is None
    assert next_task([waiting, of_model_budget(1, [1e-3])], [True, True]) == 1


def test_small_tasks_need_a_result_of_each_task() -> None:
    known = [of_model_budget(1, [1e-3]), of_model_budget(2, [1e-6])]
    assert small_tasks(known) == {1}
    assert small_tasks([*known, TaskBudget(1, submitted=1, of_model=True)]) == frozenset()
    assert small_tasks([*known, of_model_budget(1, [None])]) == {1}
