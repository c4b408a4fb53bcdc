"""The time of one run of a whole model, with warm and with cold caches."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tunefarm.model.timing.model_runs import Run, WarmRuns
from tunefarm_schemas.frozen import Frozen
from tunefarm_workers.timing.call_timer import CacheFlush
from tunefarm_workers.timing.interleaved_timing import PATIENCE, Entrant, Rounds, sampled_round, suffice, timing_of

TURN_S: Final = 12.0
"""For how long other processes wait for one process that times models, unless a run takes very long."""
_SECONDS_EACH: Final = 0.3
"""Seconds of timing for each build in each process; four times as much if the samples scatter."""


class EntryLatency(Frozen):
    """Seconds of one run of one entry, with warm and with cold caches."""

    entry: str
    latency_s: float
    cold_latency_s: float


class ProcessTimes(Frozen):
    """Seconds of one run in one process; of a model with several entries, of one run of each.

    ``latency_s`` is of runs one after the other. Before each run of ``cold_latency_s`` other memory was written, so
    that neither weights nor inputs are in a cache.
    """

    latency_s: float
    cold_latency_s: float
    entries: tuple[EntryLatency, ...] = ()
    """Of a model with several entries."""

    @classmethod
    def of_entries(cls, names: Sequence[str], times: "Sequence[ProcessTimes]") -> "ProcessTimes":
        """The sums over the entries of a model, in the order of ``names``."""
        entries = [
            EntryLatency(entry=name, latency_s=each.latency_s, cold_latency_s=each.cold_latency_s)
            for name, each in zip(names, times, strict=True)
        ]
        return cls(
            latency_s=sum(each.latency_s for each in entries),
            cold_latency_s=sum(each.cold_latency_s for each in entries),
            entries=tuple(entries) if len(entries) > 1 else (),
        )


class ModelTimes(Frozen):
    """Seconds of one run: medians over processes, and the fastest and the slowest process."""

    latency_s: float
    interval_s: tuple[float, float]
    cold_latency_s: float
    cold_interval_s: tuple[float, float]
    entries: tuple[EntryLatency, ...] = ()
    """Of a model with several entries: medians of each. The others are sums over the entries."""

    @classmethod
    def of(cls, processes: Sequence[ProcessTimes]) -> "ModelTimes":
        """The times of at least one process."""
        warm_s, cold_s = [each.latency_s for each in processes], [each.cold_latency_s for each in processes]
        return cls(
            latency_s=statistics.median(warm_s),
            interval_s=(min(warm_s), max(warm_s)),
            cold_latency_s=statistics.median(cold_s),
            cold_interval_s=(min(cold_s), max(cold_s)),
            entries=tuple(_median(each) for each in zip(*(process.entries for process in processes), strict=True)),
        )


def _median(times: Sequence[EntryLatency]) -> EntryLatency:
    return EntryLatency(
        entry=times[0].entry,
        latency_s=statistics.median(each.latency_s for each in times),
        cold_latency_s=statistics.median(each.cold_latency_s for each in times),
    )


def times_of(runs: Sequence[Run]) -> tuple[ProcessTimes, ...]:
    """Time builds of a model in turn, so that other load of the host affects all alike."""
    warm_s, cold_s = warm_latencies_s(runs), cold_latencies_s(runs)
    return tuple(
        ProcessTimes(latency_s=one_s, cold_latency_s=other_s) for one_s, other_s in zip(warm_s, cold_s, strict=True)
    )


def warm_latencies_s(runs: Sequence[Run]) -> list[float]:
    """Seconds of a run of each build, one run after the other."""
    for run in runs:
        run()
    return _latencies_s([Entrant.of(run, WarmRuns(run)) for run in runs])


def cold_latencies_s(runs: Sequence[Run]) -> list[float]:
    """Seconds of a run of each build after other memory was written."""
    flush = CacheFlush(lambda _name, _function: None)
    return _latencies_s([Entrant(run, _ColdRuns(run, flush), 1) for run in runs])


@dataclass(frozen=True)
class _ColdRuns:
    run: Run
    flush: CacheFlush

    def seconds_per_call(self, calls: int) -> float:
        spent_s = 0.0
        for _ in range(calls):
            self.flush()
            began_s = time.perf_counter()
            self.run()
            spent_s += time.perf_counter() - began_s
        return spent_s / calls


def _latencies_s(entrants: Sequence[Entrant]) -> list[float]:
    """Take rounds of samples until they suffice, and no more after ``PATIENCE`` times the wanted seconds."""
    rounds: list[list[tuple[float, ...]]] = [[] for _ in entrants]
    began_s, spent_each_s, turn = time.perf_counter(), 0.0, 0
    while not rounds[0] or not (_suffice(rounds, spent_each_s) or spent_each_s > PATIENCE * _SECONDS_EACH):
        for own, samples_s in zip(rounds, sampled_round(entrants, turn, by_clock=True), strict=True):
            own.append(samples_s)
        spent_each_s, turn = (time.perf_counter() - began_s) / len(entrants), turn + 1
    return [timing_of(own).latency_s for own in rounds]


def _suffice(rounds: Sequence[Rounds], spent_each_s: float) -> bool:
    return suffice(rounds, spent_each_s, _SECONDS_EACH)
