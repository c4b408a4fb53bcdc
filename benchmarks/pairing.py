"""All tuners on one workload with one seed, and what their schedules take beside each other."""

from collections.abc import Iterable
from statistics import median

from benchmarks.retimed import NamedSchedule, RetimeAnswer, Retimed
from benchmarks.tuner_run import Point, TunerRun
from tunefarm_schemas.frozen import Frozen

STOCK = "stock"


class Pairing(Frozen):
    """One (workload, seed) of the comparison.

    ``ours`` ran for as many trials as ``stock``. ``longer`` is a second run with a larger budget, made only where
    ``ours`` did not reach stock's result. ``retimed`` and ``longer_retimed`` each come from one process.
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
        """What the schedule that stock ships takes, timed again."""
        return self.retimed.named(STOCK).latency_s

    @property
    def our_latency_s(self) -> float:
        """What our last incumbent takes, timed again beside it."""
        return self.retimed.named(incumbent_name(len(self.ours.points) - 1)).latency_s

    @property
    def quality_samples(self) -> tuple[float, ...]:
        """How many times faster our final kernel is than stock's, in each round of the side-by-side timing."""
        stock = self.retimed.named(STOCK).samples_s
        ours = self.retimed.named(incumbent_name(len(self.ours.points) - 1)).samples_s
        return tuple(theirs / mine for theirs, mine in zip(stock, ours, strict=True))

    @property
    def first_as_fast(self) -> Point | None:
        """Our first incumbent that is as fast as stock's result, from the longer run if the equal one had none."""
        found = first_as_fast(self.ours, self.retimed)
        if found is None and self.longer is not None and self.longer_retimed is not None:
            return first_as_fast(self.longer, self.longer_retimed)
        return found

    @property
    def time_ratio(self) -> float:
        """Stock's wall time over ours to its result; where that was never reached, over all of ours (a bound)."""
        found = self.first_as_fast
        ours_s = found.elapsed_s if found is not None else (self.longer or self.ours).wall_s
        return self.stock.wall_s / ours_s


def incumbent_name(index: int) -> str:
    """What the ``index``-th incumbent of ours is called in the side-by-side timing."""
    return f"incumbent {index}"


def schedules_to_retime(stock: TunerRun, ours: TunerRun) -> tuple[NamedSchedule, ...]:
    """Stock's final schedule and each of our incumbents."""
    assert stock.final_trace is not None
    return (NamedSchedule(name=STOCK, trace=stock.final_trace), *_incumbents(ours.points))


def _incumbents(points: Iterable[Point]) -> Iterable[NamedSchedule]:
    for index, point in enumerate(points):
        if point.trace is not None:
            yield NamedSchedule(name=incumbent_name(index), trace=point.trace)


def first_as_fast(run: TunerRun, answer: RetimeAnswer) -> Point | None:
    """The first point of ``run`` whose schedule, timed again, is correct and surely takes no longer than stock's."""
    stock = answer.named(STOCK)
    return next((point for point, timed in incumbents_retimed(run, answer) if _as_fast(timed, stock)), None)


def _as_fast(timed: Retimed, stock: Retimed) -> bool:
    """No slower in either half of the rounds: of many that are nearly as fast, one is always lucky in all of them."""
    halves = [(timed.samples_s[half::2], stock.samples_s[half::2]) for half in (0, 1)]
    return timed.agrees and all(median(ours_s) <= median(stocks_s) for ours_s, stocks_s in halves)


def incumbents_retimed(run: TunerRun, answer: RetimeAnswer) -> list[tuple[Point, Retimed]]:
    """Each incumbent of ``run`` with its time in ``answer``."""
    return [(point, answer.named(incumbent_name(index))) for index, point in enumerate(run.points)]
