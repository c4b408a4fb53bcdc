"""The figures of the comparison, from its raw results."""

from collections.abc import Sequence
from statistics import geometric_mean

from benchmarks.comparison.pairing import Pairing
from benchmarks.comparison.tuner_run import TunerRun
from tunefarm_schemas.frozen import Frozen
from tunefarm_workers.timing.ratio_interval import Ratio, ratio_over

STAGES = ("start", "search", "build", "wait", "run", "verify")


class WorkloadFigures(Frozen):
    """One row of the table; means over seeds are geometric.

    ``time_ratio`` is stock's wall time over the time at which our tuner first found a kernel as fast as stock's result;
    ``not_reached`` counts the seeds in which it found none. ``quality_ratio`` is stock's latency over ours after the
    same number of trials, above 1 where ours is faster. ``baseline_time_ratio`` is the baseline's time ratio, reached
    in ``baseline_reached`` seeds, and ``baseline_quality_ratio`` its latency over ours; both are None if its schedules
    were not timed again. Its latency is then the one it reports.
    """

    workload: str
    seeds: int
    stock_wall_s: float
    stock_latency_s: float
    our_wall_s: float
    our_latency_s: float
    time_ratio: Ratio
    quality_ratio: Ratio
    not_reached: int
    stock_seconds_per_trial: float
    our_seconds_per_trial: float
    our_stage_seconds_per_trial: dict[str, float]
    stock_failures: float
    our_failures: float
    repeat_wall_s: float | None
    repeat_trials: int | None
    baseline_wall_s: float | None
    baseline_latency_s: float | None
    baseline_time_ratio: Ratio | None
    baseline_reached: int
    baseline_quality_ratio: Ratio | None


class Figures(Frozen):
    """The whole table."""

    workloads: tuple[WorkloadFigures, ...]
    time_ratio: Ratio
    quality_ratio: Ratio
    baseline_time_ratio: Ratio | None
    baseline_quality_ratio: Ratio | None

    @property
    def slower_workloads(self) -> tuple[str, ...]:
        """Workloads whose whole quality interval lies below 0.97."""
        return tuple(row.workload for row in self.workloads if row.quality_ratio.high < 0.97)


def figures(pairings: Sequence[Pairing]) -> Figures:
    """All figures of at least one pairing; workloads stay in their order of first appearance."""
    names = list(dict.fromkeys(pairing.workload for pairing in pairings))
    groups = [[pairing for pairing in pairings if pairing.workload == name] for name in names]
    return Figures(
        workloads=tuple(workload_figures(group) for group in groups),
        time_ratio=ratio_over([_time_samples(group) for group in groups]),
        quality_ratio=ratio_over([_quality_samples(group) for group in groups]),
        baseline_time_ratio=_ratio_of([_baseline_time_samples(group) for group in groups]),
        baseline_quality_ratio=_ratio_of([_baseline_quality_samples(group) for group in groups]),
    )


def workload_figures(group: Sequence[Pairing]) -> WorkloadFigures:
    """The row of one workload."""
    baselines = [pairing.baseline for pairing in group if pairing.baseline is not None]
    repeats = [pairing.ours.repeat for pairing in group if pairing.ours.repeat is not None]
    return WorkloadFigures(
        workload=group[0].workload,
        seeds=len(group),
        stock_wall_s=geometric_mean([pairing.stock.wall_s for pairing in group]),
        stock_latency_s=geometric_mean([pairing.stock_latency_s for pairing in group]),
        our_wall_s=geometric_mean([pairing.ours.wall_s for pairing in group]),
        our_latency_s=geometric_mean([pairing.our_latency_s for pairing in group]),
        time_ratio=ratio_over([_time_samples(group)]),
        quality_ratio=ratio_over([_quality_samples(group)]),
        not_reached=sum(pairing.first_as_fast is None for pairing in group),
        stock_seconds_per_trial=_seconds_per_trial([pairing.stock for pairing in group]),
        our_seconds_per_trial=_seconds_per_trial([pairing.ours for pairing in group]),
        our_stage_seconds_per_trial=_stage_seconds_per_trial([pairing.ours for pairing in group]),
        stock_failures=_failed_share([pairing.stock for pairing in group]),
        our_failures=_failed_share([pairing.ours for pairing in group]),
        repeat_wall_s=geometric_mean([repeat.wall_s for repeat in repeats]) if repeats else None,
        repeat_trials=max(repeat.trials for repeat in repeats) if repeats else None,
        baseline_wall_s=geometric_mean([run.wall_s for run in baselines]) if baselines else None,
        baseline_latency_s=_baseline_latency_s(group),
        baseline_time_ratio=_ratio_of([_baseline_time_samples(group)]),
        baseline_reached=sum(pairing.baseline_reached for pairing in group),
        baseline_quality_ratio=_ratio_of([_baseline_quality_samples(group)]),
    )


def _baseline_latency_s(group: Sequence[Pairing]) -> float | None:
    latencies_s = [
        pairing.baseline_latency_s or pairing.baseline.points[-1].latency_s
        for pairing in group
        if pairing.baseline is not None
    ]
    return geometric_mean(latencies_s) if latencies_s else None


def _ratio_of(groups: Sequence[list[list[float]]]) -> Ratio | None:
    """The ratio over the workloads that have samples, or None."""
    filled = [group for group in groups if group]
    return ratio_over(filled) if filled else None


def _baseline_time_samples(group: Sequence[Pairing]) -> list[list[float]]:
    return [[pairing.baseline_time_ratio] for pairing in group if pairing.baseline_time_ratio is not None]


def _baseline_quality_samples(group: Sequence[Pairing]) -> list[list[float]]:
    return [list(pairing.baseline_quality_samples) for pairing in group if pairing.baseline_quality_samples]


def _time_samples(group: Sequence[Pairing]) -> list[list[float]]:
    return [[pairing.time_ratio] for pairing in group]


def _quality_samples(group: Sequence[Pairing]) -> list[list[float]]:
    return [list(pairing.quality_samples) for pairing in group]


def _seconds_per_trial(runs: Sequence[TunerRun]) -> float:
    return sum(run.wall_s for run in runs) / max(1, sum(run.trials for run in runs))


def _stage_seconds_per_trial(runs: Sequence[TunerRun]) -> dict[str, float]:
    trials = max(1, sum(run.trials for run in runs))
    return {stage: sum(run.seconds.get(stage, 0.0) for run in runs) / trials for stage in STAGES}


def _failed_share(runs: Sequence[TunerRun]) -> float:
    return sum(sum(run.failures.values()) for run in runs) / max(1, sum(run.trials for run in runs))
