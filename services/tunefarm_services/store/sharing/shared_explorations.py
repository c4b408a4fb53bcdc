"""Explorations that tenants of a sharing group have in common.

Each tenant keeps rows of its own, so that nothing else in the store crosses tenants: before a job searches, it takes
over what its partners measured of the same key. The key names the function by its digest, so a tenant takes over
nothing about functions that it has not submitted itself.
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, RowMapping, bindparam, func, select, update

from tunefarm_schemas.tuning.job import Exploration
from tunefarm_schemas.tuning.measurement import Measurement
from tunefarm_schemas.tuning.record import RecordKey, RecordStatus
from tunefarm_services.store.database.insert_once import insert_into, insert_once
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.jobs.fence import require_exploration, require_fence
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.records.best_record_repository import EXACT
from tunefarm_services.store.records.record_repository import insert_record, lock_copies, record_of
from tunefarm_services.store.tables import (
    ArtifactTable,
    DispatchTable,
    ExplorationTable,
    MeasurementTable,
    TrialTable,
)
from tunefarm_services.store.trials.exploration_repository import exploration_of, has_partners, lock_with_partners
from tunefarm_services.store.trials.measurement_repository import LOWEST_LATENCY
from tunefarm_services.store.trials.sample_repository import last_number

_AT_ONCE: Final = 200
_NUMBERS: Final[BindParameter[int]] = bindparam("numbers", expanding=True)


def _of(table: type[TrialTable] | type[DispatchTable] | type[MeasurementTable]) -> tuple[Any, ...]:
    return table.tenant == bindparam("tenant"), table.exploration_id == bindparam("exploration_id")


_SCHEDULES: Final = select(TrialTable.module_hash).where(*_of(TrialTable))
_SPENT: Final = (
    select(TrialTable.candidate_number, TrialTable.module_hash)
    .where(*_of(TrialTable), TrialTable.is_counted)
    .order_by(TrialTable.candidate_number)
)
_SPENT_COUNT: Final = select(func.count()).where(*_of(TrialTable), TrialTable.is_counted)
_TRIALS: Final = select(TrialTable).where(*_of(TrialTable), TrialTable.candidate_number.in_(_NUMBERS))
_DISPATCHES: Final = select(DispatchTable).where(*_of(DispatchTable), DispatchTable.candidate_number.in_(_NUMBERS))
_MEASUREMENTS: Final = select(MeasurementTable).where(
    *_of(MeasurementTable), MeasurementTable.candidate_number.in_(_NUMBERS)
)
_ARTIFACTS: Final = select(ArtifactTable).where(
    ArtifactTable.tenant == bindparam("tenant"), ArtifactTable.record_id == bindparam("record_id")
)
_SPEND: Final = (
    update(ExplorationTable)
    .where(
        ExplorationTable.tenant == bindparam("of_tenant"),
        ExplorationTable.exploration_id == bindparam("of_exploration"),
    )
    .values(
        spent_trials=bindparam("new_trials"),
        spent_seconds=bindparam("new_seconds"),
        verified_trials=bindparam("new_verified"),
        stop_reason=bindparam("new_reason"),
        best_latency_s=LOWEST_LATENCY,
    )
)


class SharedExplorations(Repository):
    """What an exploration takes over from those that other tenants of the sharing group have of the same key."""

    @retried
    def take_over(self, lease: Lease, exploration_id: str) -> int:
        """Copy the trials of partners, and their best record with its artifacts; returns the number of new trials.

        Schedules that the exploration has tried, or takes over already, are left out. Raises FenceLost if there is
        something to take over and ``lease`` does not hold it, NotFound.
        """
        with self._database.reading() as connection:  # most tenants share nothing, and wait for no other writer
            own = exploration_of(connection, lease.tenant, exploration_id)
            if not has_partners(connection, own.key):
                return 0
        with self._database.writing() as connection:
            require_fence(connection, lease)  # the job before explorations, as all lock them
            partners = lock_with_partners(connection, own.key)  # retention deletes no trials of a locked one
            require_exploration(connection, lease, exploration_id)
            own = exploration_of(connection, lease.tenant, exploration_id)
            taken = 0
            for theirs in partners:
                count = _copy_trials(connection, own, theirs)
                _copy_best_record(connection, own, theirs)
                _add_effort(connection, own, theirs, count)
                own = exploration_of(connection, lease.tenant, exploration_id)
                taken += count
            return taken


def _copy_trials(connection: Connection, own: Exploration, theirs: Exploration) -> int:
    """Copy the spent trials of schedules that ``own`` has not tried, with their attempts, as its next numbers."""
    known = set(connection.execute(_SCHEDULES, _named(own)).scalars())
    spent = connection.execute(_SPENT, _named(theirs)).all()
    new = [row.candidate_number for row in spent if row.module_hash not in known]
    first = last_number(connection, own.key.tenant, own.exploration_id) + 1
    numbers = {number: first + place for place, number in enumerate(new)}
    for begin in range(0, len(new), _AT_ONCE):
        asked = _named(theirs) | {"numbers": new[begin : begin + _AT_ONCE]}
        trials = [_of_own(row, own, numbers) for row in connection.execute(_TRIALS, asked).mappings()]
        # Without a job, nonce and fence, no result can be taken for that of a copied attempt.
        nobody = {"job_id": "", "nonce": "", "fence": 0}
        sent = [_of_own(row, own, numbers) | nobody for row in connection.execute(_DISPATCHES, asked).mappings()]
        results = [_result_of_own(row, own, numbers) for row in connection.execute(_MEASUREMENTS, asked).mappings()]
        for table, rows in ((TrialTable, trials), (DispatchTable, sent), (MeasurementTable, results)):
            if rows:
                connection.execute(insert_into(connection, table), rows)
    return len(new)


def _copy_best_record(connection: Connection, own: Exploration, theirs: Exploration) -> None:
    key = {name: getattr(theirs.key, name) for name in ("tenant", *RecordKey.model_fields)}
    row = connection.execute(EXACT, key).one_or_none()
    if row is None:
        return
    lock_copies(connection, row.record_id)
    record = record_of(connection, theirs.key.tenant, row.record_id)
    if record.status is not RecordStatus.VERIFIED:
        return  # it was retracted a moment ago
    exploration_id = own.exploration_id if record.exploration_id == theirs.exploration_id else None
    insert_record(connection, record.model_copy(update={"tenant": own.key.tenant, "exploration_id": exploration_id}))
    for artifact in connection.execute(_ARTIFACTS, {"tenant": record.tenant, "record_id": record.record_id}).mappings():
        connection.execute(insert_once(connection, ArtifactTable), dict(artifact) | {"tenant": own.key.tenant})


def _add_effort(connection: Connection, own: Exploration, theirs: Exploration, count: int) -> None:
    """Add the effort of ``count`` copied trials. They are verified where all trials of both tenants were.

    Trials that retention deleted remain in the total, and partners may have copies of them, which look like any other
    trial. So copies are first taken for those.
    """
    stored = connection.execute(_SPENT_COUNT, _named(own)).scalar_one()
    trials = max(own.spent.trials, stored)
    share = (trials - own.spent.trials) / theirs.spent.trials if theirs.spent.trials else 0.0
    is_verified = own.is_verified and theirs.is_verified
    reason = own.spent.stop_reason if own.spent.trials else theirs.spent.stop_reason
    values = {
        "of_tenant": own.key.tenant,
        "of_exploration": own.exploration_id,
        "new_trials": trials,
        "new_seconds": own.spent.seconds + share * theirs.spent.seconds,
        "new_verified": trials if is_verified else min(own.verified_trials, trials - 1),
        "new_reason": None if reason is None else reason.value,
    }
    if count:
        connection.execute(_SPEND, values)


def _named(exploration: Exploration) -> dict[str, object]:
    return {"tenant": exploration.key.tenant, "exploration_id": exploration.exploration_id}


def _of_own(row: RowMapping, own: Exploration, numbers: Mapping[int, int]) -> dict[str, object]:
    return dict(row) | _named(own) | {"candidate_number": numbers[row["candidate_number"]]}


def _result_of_own(row: RowMapping, own: Exploration, numbers: Mapping[int, int]) -> dict[str, object]:
    values = _of_own(row, own, numbers)
    copy = {"exploration_id": own.exploration_id, "candidate_number": values["candidate_number"]}
    measurement = Measurement.model_validate_json(row["document"]).model_copy(update=copy | {"nonce": "", "fence": 0})
    return values | {"document": measurement.model_dump_json(), "is_shared": True}
