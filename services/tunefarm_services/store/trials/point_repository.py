"""Trials as points of a chart, thinned in the database."""

from typing import Final

from sqlalchemy import BindParameter, Connection, Integer, bindparam, func, literal, select

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import Measurement
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.tables import MeasurementTable, TrialTable


class TrialPoints(Frozen):
    """Trials of one exploration, thinned.

    Attributes:
        count: the number of trials.
        best: numbers of trials that were faster than all before, with their latency in seconds. Where there are more
            trials than points, a bucket of trials is a point, with the number of its first.
        sample: evenly chosen timed trials: number, latency in seconds, and the predicted score if there was one.
        failures: failed trials by reason.
    """

    count: int
    best: tuple[tuple[int, float], ...]
    sample: tuple[tuple[int, float, float | None], ...]
    failures: dict[str, int]


class TimedAttempt(Frozen):
    """A measurement, and when it was stored."""

    measurement: Measurement
    measured_at: str


_OF_EXPLORATION: Final = (
    TrialTable.tenant == bindparam("tenant"),
    TrialTable.exploration_id == bindparam("exploration_id"),
)
_EXTENT: Final = select(func.count(), func.coalesce(func.max(TrialTable.candidate_number), 0)).where(*_OF_EXPLORATION)
# Looking up each bucket and each sampled number takes half the time of grouping and filtering all trials.
_WIDTH: Final = bindparam("width", type_=Integer)
_FIRST: Final = select(literal(0).label("number")).cte("buckets", recursive=True)
_BUCKETS: Final = _FIRST.union_all(
    select(_FIRST.c.number + _WIDTH).where(_FIRST.c.number + _WIDTH <= bindparam("last", type_=Integer))
)
_FASTEST: Final = select(
    _BUCKETS.c.number,
    select(func.min(TrialTable.latency_s))
    .where(
        *_OF_EXPLORATION,
        TrialTable.candidate_number >= _BUCKETS.c.number,
        TrialTable.candidate_number < _BUCKETS.c.number + _WIDTH,
    )
    .scalar_subquery(),
).order_by(_BUCKETS.c.number)
_NUMBERS: Final[BindParameter[int]] = bindparam("numbers", expanding=True)
_SAMPLE: Final = (
    select(TrialTable.candidate_number, TrialTable.latency_s, TrialTable.predicted_score)
    .where(*_OF_EXPLORATION, TrialTable.latency_s.is_not(None), TrialTable.candidate_number.in_(_NUMBERS))
    .order_by(TrialTable.candidate_number)
)
_FAILURES: Final = (
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
    select(MeasurementTable.document, MeasurementTable.measured_at)
    .where(
        MeasurementTable.tenant == bindparam("tenant"), MeasurementTable.exploration_id == bindparam("exploration_id")
    )
    .order_by(MeasurementTable.candidate_number.desc())
    .limit(bindparam("row_limit"))
)


class PointRepository(Repository):
    """Points of charts. Each query reads the index ``ix_trials_points`` alone, and no trace."""

    def of_exploration(self, tenant: str, exploration_id: str, max_points: int) -> TrialPoints:
        """At most ``max_points`` of each kind; no points for an unknown exploration."""
        named: dict[str, object] = {"tenant": tenant, "exploration_id": exploration_id}
        with self._database.reading() as connection:
            count, last = connection.execute(_EXTENT, named).one()
            width = last // max_points + 1
            sampled = {"numbers": list(range(0, last + 1, width))}
            failures = {str(reason): number for reason, number in connection.execute(_FAILURES, named)}
            return TrialPoints(
                count=count,
                best=_best(connection, named | {"width": width, "last": last}),
                sample=tuple((row[0], row[1], row[2]) for row in connection.execute(_SAMPLE, named | sampled)),
                failures=failures,
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
            return [
                TimedAttempt(measurement=Measurement.model_validate_json(row.document), measured_at=row.measured_at)
                for row in connection.execute(_ATTEMPTS, named)
            ]


def _best(connection: Connection, values: dict[str, object]) -> tuple[tuple[int, float], ...]:
    found: list[tuple[int, float]] = []
    for number, latency_s in connection.execute(_FASTEST, values):
        if latency_s is not None and (not found or latency_s < found[-1][1]):
            found.append((number, latency_s))
    return tuple(found)
