"""Tables of measured candidates in the order in which the search proposed them, compressed."""

import gzip
from pathlib import Path
from typing import Any

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import CandidateOrigin
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Sketch
from tunefarm_search.replay.replay_table import RecordedTrial, ReplayTable


class TableTrial(Frozen):
    """One measured candidate. Without a ``sketch`` it is not a point of the space, as a schedule by rule.

    ``latency_s`` is None if it failed or took too long; ``build_s`` is the build time in seconds.
    """

    origin: str
    sketch: int | None
    decisions: tuple[Any, ...]
    latency_s: float | None
    build_s: float


class SearchRun(Frozen):
    """The trials of one search that knew nothing before, in the order of its proposals."""

    seed: int
    trials: tuple[TableTrial, ...]

    def best_s(self, first: int) -> float:
        """The lowest latency of the first trials; infinite if none has a latency."""
        return min((t.latency_s for t in self.trials[:first] if t.latency_s is not None), default=float("inf"))

    def fastest(self, first: int, count: int) -> list[int]:
        """The numbers of the fastest of the first trials that can be built again."""
        timed = [
            (trial.latency_s, number)
            for number, trial in enumerate(self.trials[:first])
            if trial.latency_s is not None and (trial.sketch is not None or trial.origin == CandidateOrigin.UNTRIED)
        ]
        return [number for _, number in sorted(timed)[:count]]


class ConfirmedTrial(Frozen):
    """The latency of a trial of a run when it was timed again, by turns with the other confirmed ones of the table."""

    run: int
    number: int
    latency_s: float


class FirstTrialsTable(Frozen):
    """All runs on one function. Latencies of one table compare with each other, not with those of other machines.

    Latencies of ``confirmed`` compare best: they were taken by turns.
    """

    name: str
    module_json: str
    target: Target
    sketches: tuple[str, ...]
    runs: tuple[SearchRun, ...]
    confirmed: tuple[ConfirmedTrial, ...] = ()

    @property
    def best_s(self) -> float:
        """The lowest latency of all runs."""
        return min(run.best_s(len(run.trials)) for run in self.runs)

    @property
    def trials(self) -> int:
        """Trials of the longest run."""
        return max(len(run.trials) for run in self.runs)

    def share(self, run: int, first: int) -> float:
        """The speed of the best of the first trials of a run over that of the best of all; confirmed ones if any."""
        if not self.confirmed:
            return self.best_s / self.runs[run].best_s(first)
        timed = [each.latency_s for each in self.confirmed if each.run == run and each.number < first]
        return min(each.latency_s for each in self.confirmed) / min(timed)

    def replay_table(self) -> ReplayTable:
        """All measured points, to compare strategies that may choose among them only."""
        points = {
            (trial.sketch, repr(trial.decisions)): RecordedTrial(
                trial.sketch, trial.decisions, trial.latency_s, trial.build_s
            )
            for run in self.runs
            for trial in run.trials
            if trial.sketch is not None
        }
        sketches = tuple(Sketch(text=text) for text in self.sketches)
        return ReplayTable(self.name, self.module_json, self.target, False, sketches, tuple(points.values()))

    def write(self, path: Path) -> None:
        """Write it as compressed JSON. The same table gives the same bytes."""
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".half")
        half.write_bytes(gzip.compress(self.model_dump_json().encode(), mtime=0))
        half.replace(path)

    @classmethod
    def read(cls, path: Path) -> "FirstTrialsTable":
        """Read what ``write`` wrote."""
        return cls.model_validate_json(gzip.decompress(path.read_bytes()))
