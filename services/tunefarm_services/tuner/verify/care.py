"""How thoroughly the latency of a function is verified: in full, or by its share of its model's time.

Results are always checked in full. What varies is the number of fresh processes, whose spread is a record's interval.
A model of sixty functions would otherwise be verified for longer than it is searched, and an error of a tenth in a
function with a hundredth of the time changes the model's time by a thousandth. A record has the number of its
processes. A job in which its function matters more verifies it again, as all jobs over single functions do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.tuning.record import ENOUGH_PROCESSES, TuningRecord
from tunefarm_services.tuner.search.exploration_run import ExplorationRun

LARGE_SHARE: Final = 0.1
SMALL_SHARE: Final = 0.01
_SOME_PROCESSES: Final = 3
_FEW_PROCESSES: Final = 2
_TOLERATED: Final = 2.0
"""A record stays valid for a model until its function has this multiple of the share; latencies vary between jobs."""


@dataclass(frozen=True)
class Care:
    """How a task is verified.

    Attributes:
        processes: fresh processes that time the library.
        accepted: the fewest processes of a stored record that need no further ones.
        share: the task's part of its model's time; None if that is unknown, or if it belongs to no model.
    """

    processes: int = ENOUGH_PROCESSES
    accepted: int = ENOUGH_PROCESSES
    share: float | None = None

    @property
    def has_more(self) -> bool:
        """Whether inconclusive latencies are worth more processes: not for one function of many."""
        return self.share is None

    def accepts(self, record: TuningRecord) -> bool:
        """Whether a verified record needs no further look: it has enough processes, on a quiet host."""
        return not record.is_doubtful and (record.processes is None or record.processes >= self.accepted)

    @property
    def reason(self) -> str:
        """Why there are few processes, for a record's status; empty if there are not."""
        is_enough = self.processes >= ENOUGH_PROCESSES
        return "" if is_enough or self.share is None else f", because it takes {self.share:.2%} of its model's time"


FULL: Final = Care()


def care_for(share: float) -> Care:
    """The care for a function with this share of its model's time."""
    return Care(_processes_for(share), _processes_for(share / _TOLERATED), share)


def cares_of(runs: Sequence[ExplorationRun], *, of_model: bool) -> Mapping[str, Care]:
    """The care for each exploration of a job, by its id; in full where latencies are unknown, or not ``of_model``."""
    times_s = {run.exploration_id: run.task.weight * (_latency_s(run) or 0.0) for run in runs}
    total_s = sum(times_s.values())
    if not of_model or not total_s:
        return dict.fromkeys(times_s, FULL)
    return {run_id: care_for(time_s / total_s) if time_s else FULL for run_id, time_s in times_s.items()}


def _latency_s(run: ExplorationRun) -> float | None:
    return run.best_latency_s or run.exploration.best_latency_s


def _processes_for(share: float) -> int:
    if share >= LARGE_SHARE:
        return ENOUGH_PROCESSES
    return _SOME_PROCESSES if share >= SMALL_SHARE else _FEW_PROCESSES
