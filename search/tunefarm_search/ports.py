"""Ports of the search. Its callers implement them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tunefarm_schemas.tuning.measurement import Candidate, Measurement, Result
from tunefarm_schemas.tuning.trace import Trace


class SearchFarm(Protocol):
    """Measures candidates."""

    def submit(self, candidates: Sequence[Candidate]) -> None:
        """Queue candidates. ``collect`` returns a result for each exactly once."""

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Wait until at least one result is available or the time is up; return all available results."""

    def room(self) -> int:
        """Number of further candidates that would keep every lane busy now."""


class Clock(Protocol):
    """A clock, real or virtual."""

    def now_s(self) -> float:
        """Seconds since a fixed moment."""


@dataclass(frozen=True)
class KnownTrial:
    """A trial that the store already contains. ``build_s`` is the build time in seconds."""

    candidate: Candidate
    result: Result
    build_s: float


class RecordSource(Protocol):
    """Knowledge from before the search starts."""

    def known_trials(self, exploration_id: str) -> Sequence[KnownTrial]:
        """Trials of this exploration, oldest first."""

    def claimed_traces(self, exploration_id: str) -> Sequence[Trace]:
        """Traces of the same workload that were not measured here, most promising first."""

    def near_traces(self, exploration_id: str) -> Sequence[Trace]:
        """The best traces of similar workloads, most promising first."""

    def model_snapshot(self, exploration_id: str) -> str | None:
        """A saved cost model of a similar workload, or None."""


@dataclass(frozen=True)
class RecordsInMemory:
    """RecordSource that were loaded in advance, by exploration id. Empty by default."""

    trials: Mapping[str, Sequence[KnownTrial]] = field(default_factory=dict)
    claims: Mapping[str, Sequence[Trace]] = field(default_factory=dict)
    traces: Mapping[str, Sequence[Trace]] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)

    def known_trials(self, exploration_id: str) -> Sequence[KnownTrial]:
        """Trials of this exploration."""
        return self.trials.get(exploration_id, ())

    def claimed_traces(self, exploration_id: str) -> Sequence[Trace]:
        """Traces of this workload."""
        return self.claims.get(exploration_id, ())

    def near_traces(self, exploration_id: str) -> Sequence[Trace]:
        """Traces of similar workloads."""
        return self.traces.get(exploration_id, ())

    def model_snapshot(self, exploration_id: str) -> str | None:
        """A model of a similar workload."""
        return self.models.get(exploration_id)
