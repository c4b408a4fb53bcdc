"""Candidates lost in both attempts."""

from typing import Final

from sqlalchemy import Connection, and_, bindparam, not_, select, update

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.measurement import Failed, Measurement, Purpose, Stages, TrialState
from tunefarm_services.store.database.repository import AnyRow
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.tables import DispatchTable, ExplorationTable, TrialTable
from tunefarm_services.store.trials.measured_trial import store_measurement

_LOST: Final = (
    select(
        DispatchTable.dispatch_id,
        DispatchTable.nonce,
        DispatchTable.fence,
        DispatchTable.candidate_number,
        DispatchTable.attempt,
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
        DispatchTable.purpose == Purpose.SEARCH.value,
        DispatchTable.attempt == 2,
        TrialTable.state == TrialState.DISPATCHED.value,
        not_(and_(DispatchTable.job_id == bindparam("job_id"), DispatchTable.fence == bindparam("fence"))),
    )
)
_COUNT: Final = (
    update(ExplorationTable)
    .where(
        ExplorationTable.tenant == bindparam("of_tenant"),
        ExplorationTable.exploration_id == bindparam("of_exploration"),
    )
    .values(spent_trials=ExplorationTable.spent_trials + bindparam("more_trials"))
)
_MESSAGE: Final = "Both attempts were lost: each time the process that measured it vanished. There is no third attempt."


def close_lost_trials(connection: Connection, lease: Lease, exploration_id: str) -> None:
    """Store a crash for each trial whose second attempt belongs to a holder before ``lease``."""
    values = {
        "tenant": lease.tenant,
        "exploration_id": exploration_id,
        "job_id": lease.job_id,
        "fence": lease.fence,
    }
    lost = connection.execute(_LOST, values).all()
    if not lost:
        return
    for row in lost:
        store_measurement(connection, lease.tenant, _crash(row, exploration_id))
    counted = sum(not row.is_counted for row in lost)
    of_exploration = {"of_tenant": lease.tenant, "of_exploration": exploration_id}
    connection.execute(_COUNT, of_exploration | {"more_trials": counted})


def _crash(row: AnyRow, exploration_id: str) -> Measurement:
    return Measurement(
        dispatch_id=row.dispatch_id,
        nonce=row.nonce,
        fence=row.fence,
        exploration_id=exploration_id,
        candidate_number=row.candidate_number,
        attempt=row.attempt,
        purpose=Purpose.SEARCH,
        result=Failed(failure=TrialFailure(reason=FailureReason.CRASH, message=_MESSAGE)),
        stages=Stages(),
    )
