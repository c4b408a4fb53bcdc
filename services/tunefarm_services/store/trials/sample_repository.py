"""Samples of the trials of an exploration, whose size does not depend on how many there are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter
from sqlalchemy import BindParameter, Connection, bindparam, func, select

from tunefarm_schemas.failure import FailureReason
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.tables import TrialTable

MAX_TRACE_CHARACTERS: Final = 32_768
"""Longer traces are left out, which bounds the memory of a sample."""
_NUMBERS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class TracedTrial:
    """A trial that ran correctly, with its trace.

    ``is_bound``: timing stopped early, so it takes at least ``latency_s``.
    """

    number: int
    latency_s: float
    is_bound: bool
    trace: str


@dataclass(frozen=True, slots=True)
class PredictedTrial:
    """A trial with the score that was predicted before it was measured; higher is better.

    ``latency_s`` is None after a failure. ``is_bound``: timing stopped early, so it takes at least this long.
    """

    number: int
    predicted_score: float
    latency_s: float | None
    is_bound: bool


# A damaged row raises ValidationError here.
_TRACED_ROWS: Final = TypeAdapter(list[tuple[int, float, bool, str]])
_PREDICTED_ROWS: Final = TypeAdapter(list[tuple[int, float, float | None, bool]])
_NUMBERS: Final[BindParameter[int]] = bindparam("numbers", expanding=True)
_OF_EXPLORATION: Final = (
    TrialTable.tenant == bindparam("tenant"),
    TrialTable.exploration_id == bindparam("exploration_id"),
)
_TIME: Final = func.coalesce(TrialTable.latency_s, TrialTable.at_least_s)
# A trial that was canceled, or lost with its device, says nothing about its candidate.
_HAS_RESULT: Final = _TIME.is_not(None) | TrialTable.failure_reason.not_in(
    [FailureReason.CANCELED.value, FailureReason.DEVICE_LOST.value]
)
_LAST: Final = (
    select(TrialTable.candidate_number).where(*_OF_EXPLORATION).order_by(TrialTable.candidate_number.desc()).limit(1)
)
_TRACED: Final = (
    select(TrialTable.candidate_number, _TIME, TrialTable.latency_s.is_(None), TrialTable.trace)
    .where(*_OF_EXPLORATION, TrialTable.candidate_number.in_(_NUMBERS), _TIME.is_not(None))
    .where(func.length(TrialTable.trace) <= MAX_TRACE_CHARACTERS)
    .order_by(TrialTable.candidate_number)
)
_PREDICTED: Final = (
    select(TrialTable.candidate_number, TrialTable.predicted_score, _TIME, TrialTable.latency_s.is_(None))
    .where(*_OF_EXPLORATION, TrialTable.candidate_number.between(bindparam("first"), bindparam("last")))
    .where(TrialTable.predicted_score.is_not(None), _HAS_RESULT)
    .order_by(TrialTable.candidate_number)
)
FASTEST: Final = (
    select(TrialTable.candidate_number)
    .where(*_OF_EXPLORATION, TrialTable.latency_s.is_not(None))
    .order_by(TrialTable.latency_s, TrialTable.candidate_number)
    .limit(bindparam("row_limit"))
)


def last_number(connection: Connection, tenant: str, exploration_id: str) -> int:
    """The largest number of a trial; -1 without trials."""
    found = connection.execute(_LAST, {"tenant": tenant, "exploration_id": exploration_id}).scalar()
    return -1 if found is None else found


class SampleRepository(Repository):
    """Samples of trials. Each depends on the stored trials alone: equal trials give equal samples."""

    def evenly(self, tenant: str, exploration_id: str, limit: int) -> list[TracedTrial]:
        """Trials at up to ``limit`` evenly chosen numbers, without failed and unfinished ones."""
        with self._database.reading() as connection:
            last = last_number(connection, tenant, exploration_id)
            return _traced(connection, tenant, exploration_id, evenly_chosen(last, limit))

    def fastest(self, tenant: str, exploration_id: str, limit: int) -> list[TracedTrial]:
        """The fastest trials whose timing was complete, the fastest first."""
        named = {"tenant": tenant, "exploration_id": exploration_id, "row_limit": limit}
        with self._database.reading() as connection:
            numbers = list(connection.execute(FASTEST, named).scalars())
            found = _traced(connection, tenant, exploration_id, numbers)
        return sorted(found, key=lambda trial: (trial.latency_s, trial.number))

    def windows(self, tenant: str, exploration_id: str, count: int, size: int) -> list[list[PredictedTrial]]:
        """Up to ``count`` evenly spaced windows of ``size`` consecutive numbers, all of them if there are so few.

        Each has the trials that have a prediction and a result; empty windows are left out.
        """
        with self._database.reading() as connection:
            last = last_number(connection, tenant, exploration_id)
            named = {"tenant": tenant, "exploration_id": exploration_id}
            windows = [
                _predicted(connection, named | {"first": first, "last": first + size - 1})
                for first in _window_starts(last, count, size)
            ]
        return [window for window in windows if window]


def evenly_chosen(last: int, limit: int) -> range:
    """At most ``limit`` numbers from 0 to ``last`` at equal distances; none if ``last`` is negative."""
    return range(0, last + 1, max(last, 0) // limit + 1)


def _window_starts(last: int, count: int, size: int) -> Iterator[int]:
    whole = -(-(last + 1) // size)
    if whole <= count:
        yield from range(0, last + 1, size)
        return
    for place in range(count):
        yield place * (last + 1 - size) // (count - 1)


def _traced(connection: Connection, tenant: str, exploration_id: str, numbers: Sequence[int]) -> list[TracedTrial]:
    rows: list[AnyRow] = []
    for first in range(0, len(numbers), _NUMBERS_AT_ONCE):
        named = {"tenant": tenant, "exploration_id": exploration_id, "numbers": numbers[first:][:_NUMBERS_AT_ONCE]}
        rows += connection.execute(_TRACED, named)
    return [TracedTrial(*row) for row in _TRACED_ROWS.validate_python([tuple(row) for row in rows])]


def _predicted(connection: Connection, named: dict[str, object]) -> list[PredictedTrial]:
    rows = [tuple(row) for row in connection.execute(_PREDICTED, named)]
    return [
        PredictedTrial(number, score, latency_s, is_bound and latency_s is not None)
        for number, score, latency_s, is_bound in _PREDICTED_ROWS.validate_python(rows)
    ]
