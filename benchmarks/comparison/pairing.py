"""All tuners on one workload with one seed, and the interleaved timings of their schedules."""

from collections.abc import Iterable
from statistics import median

from benchmarks.comparison.retimed import NamedSchedule, RetimeAnswer, Retimed
from benchmarks.comparison.tuner_run import IncumbentPoint, TunerRun
from tunefarm_schemas.frozen import Frozen

STOCK = "stock"


class Pairing(Frozen):
    """One (workload, seed) of the comparison.

    ``ours`` has as many trials as ``stock``. ``longer`` is a second run with a larger budget, only present if ``ours``
    did not reach stock's result. The schedules of ``retimed``, and of ``longer_retimed``, share their processes.
    """

    workload: str
    seed: int
    trials: int
    order: tuple[str, ...]
    stock: TunerRun
    ours: TunerRun
    baseline: TunerRun | None
    retimed: RetimeAnswer
    longer: TunerRun | None = None
    longer_retimed: RetimeAnswer | None = None

    @property
    def stock_latency_s(self) -> float:
        """The latency of stock's final schedule, timed again."""
        return self.retimed.named(STOCK).latency_s

    @property
    def our_latency_s(self) -> float:
        """The latency of our last incumbent, timed in turn with stock's schedule."""
        return _last(self.ours, self.retimed).latency_s

    @property
    def baseline_latency_s(self) -> float | None:
        """The latency of the baseline's last schedule, timed in turn with the others; None without its trace."""
        named = self._named_baseline
        return None if named is None else _last(named, self.retimed).latency_s

    @property
    def quality_samples(self) -> tuple[float, ...]:
        """The speed of our final kernel relative to stock's, in each round of the interleaved timing."""
        return _over(self.retimed.named(STOCK), _last(self.ours, self.retimed))

    @property
    def baseline_quality_samples(self) -> tuple[float, ...]:
        """The speed of our final kernel relative to the baseline's; empty if that was not timed again."""
        named = self._named_baseline
        return () if named is None else _over(_last(named, self.retimed), _last(self.ours, self.retimed))

    @property
    def first_as_fast(self) -> IncumbentPoint | None:
        """Our first incumbent as fast as stock's result, from the longer run if the equal one has none."""
        found = first_as_fast(self.ours, self.retimed)
        if found is None and self.longer is not None and self.longer_retimed is not None:
            return first_as_fast(self.longer, self.longer_retimed)
        return found

    @property
    def time_ratio(self) -> float:
        """Stock's wall time over our time to its result; if never reached, over our total time (a bound)."""
        found = self.first_as_fast
        ours_s = found.elapsed_s if found is not None else (self.longer or self.ours).wall_s
        return self.stock.wall_s / ours_s

    @property
    def baseline_time_ratio(self) -> float | None:
        """The same for the baseline, within its equal budget; None if its schedules were not timed again."""
        named = self._named_baseline
        if named is None:
            return None
        found = first_as_fast(named, self.retimed)
        return self.stock.wall_s / (found.elapsed_s if found is not None else named.wall_s)

    @property
    def baseline_reached(self) -> bool:
        """Whether the baseline found a kernel as fast as stock's result within its equal budget."""
        return self.baseline is not None and first_as_fast(self.baseline, self.retimed) is not None

    @property
    def _named_baseline(self) -> TunerRun | None:
        """The baseline, if its final trace is known."""
        return self.baseline if self.baseline is not None and self.baseline.final_trace is not None else None


def incumbent_name(run: TunerRun, index: int) -> str:
    """The name of the ``index``-th incumbent of a run in the interleaved timing."""
    return f"{run.tuner} {index}"


def final_names(*runs: TunerRun | None) -> tuple[str, ...]:
    """Names of the schedules to ship: stock's, and the last incumbent of each run."""
    return (STOCK, *(incumbent_name(run, len(run.points) - 1) for run in runs if run is not None and run.final_trace))


def schedules_to_retime(stock: TunerRun, *others: TunerRun | None) -> tuple[NamedSchedule, ...]:
    """Stock's final schedule, and each incumbent of the others whose trace is known."""
    assert stock.final_trace is not None
    incumbents = (schedule for run in others if run is not None for schedule in _incumbents(run))
    return (NamedSchedule(name=STOCK, trace=stock.final_trace), *incumbents)


def _incumbents(run: TunerRun) -> Iterable[NamedSchedule]:
    for index, point in enumerate(run.points):
        if point.trace is not None:
            yield NamedSchedule(name=incumbent_name(run, index), trace=point.trace)


def _last(run: TunerRun, answer: RetimeAnswer) -> Retimed:
    return answer.named(incumbent_name(run, len(run.points) - 1))


def _over(theirs: Retimed, ours: Retimed) -> tuple[float, ...]:
    return tuple(their_s / our_s for their_s, our_s in zip(theirs.samples_s, ours.samples_s, strict=True))


def first_as_fast(run: TunerRun, answer: RetimeAnswer) -> IncumbentPoint | None:
    """The first point of ``run`` whose schedule, timed again, is correct and no slower than stock's."""
    stock = answer.named(STOCK)
    return next((point for point, timed in incumbents_retimed(run, answer) if _as_fast(timed, stock)), None)


def _as_fast(timed: Retimed, stock: Retimed) -> bool:
    """Whether neither half of the rounds is slower: among many similar kernels, some are lucky overall."""
    halves = [(timed.samples_s[half::2], stock.samples_s[half::2]) for half in (0, 1)]
    return timed.agrees and all(median(ours_s) <= median(stocks_s) for ours_s, stocks_s in halves)


def incumbents_retimed(run: TunerRun, answer: RetimeAnswer) -> list[tuple[IncumbentPoint, Retimed]]:
    """Each incumbent of ``run`` with its time in ``answer``."""
    return [
        (point, answer.named(incumbent_name(run, index)))
        for index, point in enumerate(run.points)
        if point.trace is not None
    ]
