import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tunefarm_schemas.tuning.job import Effort, StopReason
from tunefarm_schemas.tuning.measurement import Candidate, CandidateOrigin, Failed, Timing
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.loop.loop import SearchLoop
from tunefarm_search.loop.progress import LoopProgress, TaskProgress
from tunefarm_search.loop.task_search import SearchTask
from tunefarm_search.ports import KnownTrial, RecordsInMemory
from tunefarm_search.replay.replay_farm import ReplayFarm
from tunefarm_search.replay.replay_table import MissingMeasurement, ReplayTable


class WatchedFarm(ReplayFarm):
    """A replay farm that records its orders and counts needless waits."""

    def __init__(self, table: ReplayTable, **settings: object) -> None:
        super().__init__(table, **settings)  # type: ignore[arg-type]
        self.candidates: list[Candidate] = []
        self.batches: list[int] = []
        self.most_in_flight = 0

    def submit(self, candidates: Sequence[Candidate]) -> None:
        super().submit(candidates)
        self.candidates += candidates
        self.batches.append(len(candidates))
        self.most_in_flight = max(self.most_in_flight, len(self.candidates) - len(self.delivered))


def task_of(table: ReplayTable, exploration_id: str = "exploration") -> SearchTask:
    pool = () if table.is_exhaustive else table.traces()
    return SearchTask(exploration_id, table.module_json, table.target, space=table.space, pool=pool)


def search(
    table: ReplayTable, strategy: str, trials: int, seed: int = 0, **settings: object
) -> tuple[WatchedFarm, list[TaskProgress]]:
    farm = WatchedFarm(table, seed=seed, stop_ratio=1.6)
    loop = SearchLoop(
        [task_of(table)],
        farm,
        farm,
        Effort(trials=trials),
        strategy=strategy,
        seed=seed,
        **settings,  # type: ignore[arg-type]
    )
    return farm, loop.run()


@pytest.mark.parametrize("strategy", ["evolutionary", "random"])
@pytest.mark.quick_cases(1)
def test_same_seed_and_delivery_order_repeat_the_run(strategy: str, small_table: ReplayTable) -> None:
    first, _ = search(small_table, strategy, 24, seed=3)
    again, _ = search(small_table, strategy, 24, seed=3)
    other, _ = search(small_table, strategy, 4, seed=4)
    assert [c.trace.text for c in first.candidates] == [c.trace.text for c in again.candidates]
    assert [c.trace.text for c in first.candidates[:4]] != [c.trace.text for c in other.candidates]


@pytest.mark.parametrize("strategy", ["evolutionary", "random"])
@pytest.mark.quick_cases(1)
def test_search_never_repeats_candidates_or_numbers(strategy: str, small_table: ReplayTable) -> None:
    farm, _ = search(small_table, strategy, 56)
    assert len({c.module_hash for c in farm.candidates}) == len(farm.candidates) == 56
    assert [c.number for c in farm.candidates] == list(range(56))


def regret(table: ReplayTable, strategy: str, seed: int, trials: int) -> float:
    """The distance of the best so far from the optimum, as a logarithm, averaged over the run."""
    farm, _ = search(table, strategy, trials, seed)
    bests = [farm.best_after(number) for number in range(4, trials + 1)]
    return sum(math.log(best / table.best_latency_s) for best in bests) / len(bests)


@pytest.mark.faults
def test_evolutionary_search_beats_random_search(pool_table: ReplayTable) -> None:
    evolved = [regret(pool_table, "evolutionary", seed, 32) for seed in range(5)]
    drawn = [regret(pool_table, "random", seed, 32) for seed in range(5)]
    assert sum(evolved) < 0.8 * sum(drawn)
    assert max(evolved) < max(drawn)


@pytest.mark.faults
def test_evolutionary_search_escapes_rugged_space(transposed_convolution_table: ReplayTable) -> None:
    """One schedule in twenty is within a factor of 2.6 of the best; the first 32 trials are within 1.65 on average."""
    table = transposed_convolution_table
    regrets = [regret(table, "evolutionary", seed, 32) for seed in range(5)]
    assert sum(regrets) / len(regrets) < 0.5, regrets
    assert max(regrets) < 0.7, regrets


def test_replay_farm_rejects_candidate_outside_pool(pool_table: ReplayTable) -> None:
    farm = ReplayFarm(pool_table)
    without_pool = replace(task_of(pool_table), pool=())
    with pytest.raises(MissingMeasurement, match="contains no measurement"):
        SearchLoop([without_pool], farm, farm, Effort(trials=64)).run()


def test_search_exhausts_small_space(small_table: ReplayTable) -> None:
    farm, summaries = search(small_table, "random", 100_000)
    assert summaries[0].stop_reason is StopReason.SPACE_EXHAUSTED
    assert summaries[0].best_latency_s == small_table.best_latency_s
    assert summaries[0].trials == len({c.module_hash for c in farm.candidates})


def test_search_keeps_farm_busy_with_small_batches(small_table: ReplayTable) -> None:
    farm, _ = search(small_table, "evolutionary", 32)
    assert farm.most_in_flight <= 8
    assert max(farm.batches) <= 8
    assert farm.batches[0] <= 2


def test_search_stays_within_trials_and_reports_progress(small_table: ReplayTable) -> None:
    reported: list[LoopProgress] = []
    farm, summaries = search(small_table, "evolutionary", 32, on_progress=reported.append)
    assert len(farm.candidates) == summaries[0].trials == 32
    assert summaries[0].stop_reason is StopReason.TRIALS
    assert reported[-1].trials == 32
    assert reported[-1].best_latency_s == summaries[0].best_latency_s
    assert [p.trials for p in reported] == sorted(p.trials for p in reported)
    assert reported[-1].strategy.accuracy is not None
    assert summaries[0].model is not None


def test_cancel_returns_without_waiting_for_results(small_table: ReplayTable) -> None:
    farm = WatchedFarm(small_table)
    loop = SearchLoop(
        [task_of(small_table)], farm, farm, Effort(trials=50), is_canceled=lambda: len(farm.delivered) >= 5
    )
    assert loop.run()[0].stop_reason is StopReason.CANCELED
    assert len(farm.delivered) < 20


def test_time_limit_stops_search(small_table: ReplayTable) -> None:
    farm = WatchedFarm(small_table)
    summaries = SearchLoop([task_of(small_table)], farm, farm, Effort(trials=500, seconds=2.0)).run()
    assert summaries[0].stop_reason is StopReason.SECONDS
    assert farm.now_s() < 3.0


def test_target_latency_stops_search(small_table: ReplayTable) -> None:
    farm = WatchedFarm(small_table)
    goal = 1.5 * small_table.best_latency_s
    summaries = SearchLoop([task_of(small_table)], farm, farm, Effort(trials=300, target_latency_s=goal)).run()
    assert summaries[0].stop_reason is StopReason.TARGET_LATENCY
    assert summaries[0].best_latency_s <= goal


def test_resumed_search_skips_known_trials(small_table: ReplayTable) -> None:
    first, _ = search(small_table, "evolutionary", 12)
    by_number = {m.candidate_number: m for m in first.delivered}
    known = [KnownTrial(c, by_number[c.number].result, 0.1) for c in first.candidates]
    farm = WatchedFarm(small_table)
    records = RecordsInMemory(trials={"exploration": known})
    summaries = SearchLoop([task_of(small_table)], farm, farm, Effort(trials=12), records=records).run()
    assert not {c.module_hash for c in farm.candidates} & {c.module_hash for c in first.candidates}
    assert min(c.number for c in farm.candidates) == 12
    assert summaries[0].trials == 12
    assert summaries[0].best_latency_s <= first.best_after(12)


def test_search_measures_seed_traces_first(small_table: ReplayTable) -> None:
    best = min(small_table.trials, key=lambda trial: trial.latency_s or 1.0)
    seed = small_table.traces()[small_table.trials.index(best)]
    farm = WatchedFarm(small_table)
    task = replace(task_of(small_table), seed_traces=(seed,))
    SearchLoop([task], farm, farm, Effort(trials=10)).run()
    assert farm.candidates[0].origin is CandidateOrigin.SEED
    assert farm.best_after(10) == small_table.best_latency_s


def test_search_tries_claimed_traces_first(
    small_table: ReplayTable,
) -> None:
    best = min(small_table.trials, key=lambda trial: trial.latency_s or 1.0)
    claim = small_table.traces()[small_table.trials.index(best)]
    records = RecordsInMemory(claims={"exploration": (Trace(text="nonsense"), claim, claim)})
    farm, _ = search(small_table, "evolutionary", 10, records=records)
    assert [c.origin for c in farm.candidates].count(CandidateOrigin.STORE) == 1
    assert farm.candidates[0].origin is CandidateOrigin.STORE
    assert farm.best_after(10) == small_table.best_latency_s


def test_search_starts_from_model_of_another_exploration(small_table: ReplayTable) -> None:
    _, summaries = search(small_table, "evolutionary", 64, seed=9)
    assert summaries[0].model is not None
    warm = RecordsInMemory(models={"exploration": summaries[0].model})
    bests = [search(small_table, "evolutionary", 10, seed, records=warm)[0].best_after(10) for seed in range(3)]
    assert sorted(bests)[1] <= 1.1 * small_table.best_latency_s


def test_tasks_share_trials_by_weight(small_table: ReplayTable) -> None:
    farm = WatchedFarm(small_table)
    tasks = [replace(task_of(small_table, "often"), weight=20.0), task_of(small_table, "seldom")]
    summaries = SearchLoop(tasks, farm, farm, Effort(trials=48)).run()
    assert sum(summary.trials for summary in summaries) == 48
    assert summaries[0].trials > summaries[1].trials >= 16


def test_replay_strategy_keeps_trace_order(small_table: ReplayTable) -> None:
    farm = WatchedFarm(small_table)
    task = replace(task_of(small_table), seed_traces=small_table.traces()[:5])
    summaries = SearchLoop([task], farm, farm, Effort(trials=100), strategy="replay").run()
    assert summaries[0].stop_reason is StopReason.SPACE_EXHAUSTED
    measured = [m.result for m in sorted(farm.delivered, key=lambda m: m.candidate_number)]
    assert [r.latency_s for r in measured if isinstance(r, Timing)] == [t.latency_s for t in small_table.trials[:5]]


def test_search_ends_when_every_candidate_fails(small_table: ReplayTable) -> None:
    broken = replace(small_table, trials=tuple(replace(trial, latency_s=None) for trial in small_table.trials))
    farm, summaries = search(broken, "evolutionary", 16)
    assert all(isinstance(m.result, Failed) for m in farm.delivered)
    assert summaries[0].best_latency_s == float("inf")
