"""Trials as points of a chart, thinned in the database."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pydantic_core import from_json
from sqlalchemy import Connection, Integer, bindparam, func, select

from tunefarm_schemas.frozen import Frozen
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.tables import MeasurementTable, TrialTable
from tunefarm_services.store.trials.sample_repository import evenly_chosen, last_number


class TrialPoints(Frozen):
    """Trials of one exploration, thinned.

    Attributes:
        end: the number after that of the last trial.
        best: numbers of trials that were faster than all before, or of their bucket's fastest, with their latency in
            seconds.
        sample: evenly chosen timed trials: number, latency in seconds, and the predicted score if there was one.
        stopped: the same of trials that were stopped early, with the lower bound of their latency.
        failures: failed trials by reason.
    """

    end: int
    best: tuple[tuple[int, float], ...]
    sample: tuple[tuple[int, float, float | None], ...]
    stopped: tuple[tuple[int, float, float | None], ...]
    failures: dict[str, int]


class TimedAttempt(NamedTuple):
    """How long an attempt took, why it failed, and when its measurement was stored.

    ``stages`` are the fields of ``Stages``, in seconds; one that is missing took no time.
    """

    candidate_number: int
    attempt: int
    purpose: str
    failure_reason: str | None
    measured_at: str
    stages: Mapping[str, float]


_OF_EXPLORATION: Final = (
    TrialTable.tenant == bindparam("tenant"),
    TrialTable.exploration_id == bindparam("exploration_id"),
)
_BUCKET: Final = TrialTable.candidate_number // bindparam("width", type_=Integer)
FASTEST: Final = (
    select(func.min(TrialTable.candidate_number), func.min(TrialTable.latency_s))
    .where(*_OF_EXPLORATION, TrialTable.latency_s.is_not(None))
    .group_by(_BUCKET)
    .order_by(_BUCKET)
)
_SAMPLE: Final = (
    select(TrialTable.candidate_number, TrialTable.latency_s, TrialTable.at_least_s, TrialTable.predicted_score)
    .where(*_OF_EXPLORATION, TrialTable.candidate_number.in_(bindparam("numbers", expanding=True)))
    .order_by(TrialTable.candidate_number)
)
FAILURES: Final = (
    select(TrialTable.failure_reason, func.count())
    .where(*_OF_EXPLORATION, TrialTable.failure_reason.is_not(None))
    .group_by(TrialTable.failure_reason)
)
_RANKED: Final = (
    select(TrialTable.candidate_number, TrialTable.latency_s)
    .where(*_OF_EXPLORATION, TrialTable.latency_s.is_not(None))
    .order_by(TrialTable.latency_s, TrialTable.candidate_number)
    .limit(bindparam("row_limit"))
)
_ATTEMPTS: Final = (
    select(
        MeasurementTable.candidate_number,
        MeasurementTable.attempt,
        MeasurementTable.purpose,
        MeasurementTable.failure_reason,
        MeasurementTable.measured_at,
        MeasurementTable.document,
    )
    .where(
        MeasurementTable.tenant == bindparam("tenant"), MeasurementTable.exploration_id == bindparam("exploration_id")
    )
    .order_by(MeasurementTable.candidate_number.desc())
    .limit(bindparam("row_limit"))
)


class PointRepository(Repository):
    """Points of charts, from the partial indexes of timed and of failed trials, and from single rows."""

    def of_exploration(self, tenant: str, exploration_id: str, max_points: int) -> TrialPoints:
        """At most ``max_points`` of each kind; no points for an unknown exploration."""
        named: dict[str, object] = {"tenant": tenant, "exploration_id": exploration_id}
        with self._database.reading() as connection:
            last = last_number(connection, tenant, exploration_id)
            numbers = evenly_chosen(last, max_points)
            sample = connection.execute(_SAMPLE, named | {"numbers": list(numbers)}).all()
            return TrialPoints(
                end=last + 1,
                best=_best(connection, named | {"width": numbers.step}),
                sample=tuple((n, timed_s, score) for n, timed_s, _, score in sample if timed_s is not None),
                stopped=tuple((n, bound_s, score) for n, _, bound_s, score in sample if bound_s is not None),
                failures={str(reason): number for reason, number in connection.execute(FAILURES, named)},
            )

    def fastest(self, tenant: str, exploration_id: str, limit: int) -> tuple[tuple[int, float], ...]:
        """The numbers and latencies, in seconds, of the fastest trials."""
        named = {"tenant": tenant, "exploration_id": exploration_id, "row_limit": limit}
        with self._database.reading() as connection:
            rows = connection.execute(_RANKED, named)
            return tuple((number, latency_s) for number, latency_s in rows if latency_s is not None)

    def attempts(self, tenant: str, exploration_id: str, limit: int) -> list[TimedAttempt]:
        """At most ``limit`` measurements, those of the latest candidates."""
        named = {"tenant": tenant, "exploration_id": exploration_id, "row_limit": limit}
        with self._database.reading() as connection:
            # Only the stages are read: to validate each measurement takes several times as long.
            return [
                TimedAttempt(number, attempt, purpose, reason, at, from_json(document)["stages"])
                for number, attempt, purpose, reason, at, document in connection.execute(_ATTEMPTS, named)
            ]


def _best(connection: Connection, values: dict[str, object]) -> tuple[tuple[int, float], ...]:
    found: list[tuple[int, float]] = []
    for number, latency_s in connection.execute(FASTEST, values):
        if latency_s is not None and (not found or latency_s < found[-1][1]):
            found.append((number, latency_s))
    return tuple(found)
