"""Measurements: checked against what was dispatched, stored once, and only then acknowledged."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import ColumnElement, Connection, Double, bindparam, case, cast, func, select, update

from tunefarm_schemas.measurement import Measurement, Purpose, Timing
from tunefarm_services.store.fence import require_exploration, require_fence
from tunefarm_services.store.lease import Lease
from tunefarm_services.store.measured_trial import is_spent, is_wrong, store_measurement
from tunefarm_services.store.rows import AnyRow, Rows
from tunefarm_services.store.tables import DispatchTable, ExplorationTable, TrialTable

_DISPATCH: Final = (
    select(
        DispatchTable.dispatch_id,
        DispatchTable.nonce,
        DispatchTable.fence,
        DispatchTable.job_id,
        TrialTable.is_counted,
    )
    .join(
        TrialTable,
        (TrialTable.tenant == DispatchTable.tenant)
        & (TrialTable.exploration_id == DispatchTable.exploration_id)
        & (TrialTable.candidate_number == DispatchTable.candidate_number),
    )
    .where(
        DispatchTable.tenant == bindparam("tenant"),
        DispatchTable.exploration_id == bindparam("exploration_id"),
        DispatchTable.candidate_number == bindparam("candidate_number"),
        DispatchTable.attempt == bindparam("attempt"),
        DispatchTable.purpose == bindparam("purpose"),
    )
)
_OF_EXPLORATION: Final = update(ExplorationTable).where(
    ExplorationTable.tenant == bindparam("of_tenant"),
    ExplorationTable.exploration_id == bindparam("of_exploration"),
)
# PostgreSQL has to be told the type of a parameter that may be NULL.
_FOUND: Final[ColumnElement[float]] = cast(bindparam("latency_s"), Double())
_LEARN: Final = _OF_EXPLORATION.values(
    spent_trials=ExplorationTable.spent_trials + bindparam("more_trials"),
    best_latency_s=case(
        (_FOUND.is_(None), ExplorationTable.best_latency_s),
        (ExplorationTable.best_latency_s <= _FOUND, ExplorationTable.best_latency_s),
        else_=_FOUND,
    ),
)
_RECOMPUTE_BEST: Final = _OF_EXPLORATION.values(
    best_latency_s=select(func.min(TrialTable.latency_s))
    .where(TrialTable.tenant == bindparam("of_tenant"), TrialTable.exploration_id == bindparam("of_exploration"))
    .scalar_subquery()
)


class MeasurementRows(Rows):
    """What attempts gave."""

    def commit_measurements(self, lease: Lease, measurements: Sequence[Measurement]) -> list[Measurement]:
        """Store results in one transaction and return those that were new; show the search no others.

        Passed over, without an error: repeats, and results without the id, nonce and fence of a live dispatch of this
        lease. A trial is counted as spent once, with the first result that is not to be tried again. A wrong result
        at verification takes the trial's latency back. Raises FenceLost.
        """
        with self._database.writing() as connection:
            require_fence(connection, lease)
            for exploration_id in {measurement.exploration_id for measurement in measurements}:
                require_exploration(connection, lease, exploration_id)
            return [measurement for measurement in measurements if _commit(connection, lease, measurement)]


def _commit(connection: Connection, lease: Lease, measurement: Measurement) -> bool:
    key = {
        "tenant": lease.tenant,
        "exploration_id": measurement.exploration_id,
        "candidate_number": measurement.candidate_number,
        "attempt": measurement.attempt,
        "purpose": measurement.purpose.value,
    }
    dispatch = connection.execute(_DISPATCH, key).one_or_none()
    if dispatch is None or not _is_live(dispatch, lease, measurement):
        return False
    if not store_measurement(connection, lease.tenant, measurement):
        return False
    of_exploration = {"of_tenant": lease.tenant, "of_exploration": measurement.exploration_id}
    if measurement.purpose is Purpose.SEARCH:
        more = int(is_spent(measurement) and not dispatch.is_counted)
        latency_s = measurement.result.latency_s if isinstance(measurement.result, Timing) else None
        if more or latency_s is not None:
            connection.execute(_LEARN, of_exploration | {"more_trials": more, "latency_s": latency_s})
    elif is_wrong(measurement):
        connection.execute(_RECOMPUTE_BEST, of_exploration)
    return True


def _is_live(dispatch: AnyRow, lease: Lease, measurement: Measurement) -> bool:
    sent = (dispatch.dispatch_id, dispatch.nonce, dispatch.fence)
    is_ours = (dispatch.job_id, dispatch.fence) == (lease.job_id, lease.fence)
    return is_ours and sent == (measurement.dispatch_id, measurement.nonce, measurement.fence)
