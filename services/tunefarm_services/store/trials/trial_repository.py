"""Trials: dispatched candidates, and their retrieval."""

from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import BindParameter, Connection, bindparam, select, update

from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import (
    Candidate,
    CandidateOrigin,
    Dispatch,
    Failed,
    Measurement,
    Purpose,
    TrialState,
)
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.store.database.insert_once import insert_once
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.jobs.fence import require_exploration
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store_error import StoreConflict
from tunefarm_services.store.stored import LOCAL_TENANT, StoredTrial
from tunefarm_services.store.tables import DispatchTable, MeasurementTable, TrialTable
from tunefarm_services.store.trials.exploration_repository import exploration_of

_TRACE: Final = select(TrialTable.trace).where(
    TrialTable.tenant == bindparam("tenant"),
    TrialTable.exploration_id == bindparam("exploration_id"),
    TrialTable.candidate_number == bindparam("candidate_number"),
)
_MARK_DISPATCHED: Final = (
    update(TrialTable)
    .where(
        TrialTable.tenant == bindparam("of_tenant"),
        TrialTable.exploration_id == bindparam("of_exploration"),
        TrialTable.candidate_number == bindparam("of_number"),
    )
    .values(state=TrialState.DISPATCHED.value)
)
TRIALS: Final = (
    select(TrialTable)
    .where(TrialTable.tenant == bindparam("tenant"), TrialTable.exploration_id == bindparam("exploration_id"))
    .order_by(TrialTable.candidate_number)
)
_DISPATCHES: Final = (
    select(DispatchTable)
    .where(
        DispatchTable.tenant == bindparam("tenant"),
        DispatchTable.exploration_id == bindparam("exploration_id"),
        DispatchTable.purpose == Purpose.SEARCH.value,
    )
    .order_by(DispatchTable.attempt)
)
_DOCUMENTS: Final = (
    select(MeasurementTable.candidate_number, MeasurementTable.document)
    .where(
        MeasurementTable.tenant == bindparam("tenant"),
        MeasurementTable.exploration_id == bindparam("exploration_id"),
        MeasurementTable.purpose == Purpose.SEARCH.value,
    )
    .order_by(MeasurementTable.attempt)
)
_NUMBERS: Final[BindParameter[int]] = bindparam("numbers", expanding=True)
_DISPATCHES_OF_PAGE: Final = _DISPATCHES.where(DispatchTable.candidate_number.in_(_NUMBERS))
_DOCUMENTS_OF_PAGE: Final = _DOCUMENTS.where(MeasurementTable.candidate_number.in_(_NUMBERS))


class TrialRepository(Repository):
    """Candidates that were dispatched."""

    @retried
    def put(self, lease: Lease, candidates: Sequence[Candidate], dispatches: Sequence[Dispatch]) -> None:
        """Store candidates and dispatches atomically. Send them only after this returns.

        A second attempt needs no candidate. Raises FenceLost if the lease lost the job or does not hold the
        exploration, StoreConflict if a number already has another trace or the attempt already exists.
        """
        if any(dispatch.fence != lease.fence for dispatch in dispatches):
            raise ValueError("a dispatch must have the fence of the lease")
        explorations = {c.exploration_id for c in candidates} | {d.candidate.exploration_id for d in dispatches}
        with self._database.writing() as connection:
            for exploration_id in sorted(explorations):
                require_exploration(connection, lease, exploration_id)
            _insert_candidates(connection, lease.tenant, candidates)
            _insert_dispatches(connection, lease, dispatches)

    def of_exploration(self, exploration_id: str, *, tenant: str = LOCAL_TENANT) -> list[StoredTrial]:
        """Every trial of an exploration by number. Raises NotFound."""
        values = {"tenant": tenant, "exploration_id": exploration_id}
        with self._database.reading() as connection:
            exploration_of(connection, tenant, exploration_id)
            rows = connection.execute(TRIALS, values).all()
            return _with_attempts(rows, connection.execute(_DISPATCHES, values), connection.execute(_DOCUMENTS, values))

    def page(
        self,
        tenant: str,
        exploration_id: str,
        after: int | None = None,
        limit: int = 100,
        failed_only: bool = False,
        reason: FailureReason | None = None,
    ) -> list[StoredTrial]:
        """Trials by number, at most ``limit``, after the number ``after``; optionally failed ones, or one reason's.

        Raises NotFound.
        """
        query = TRIALS.limit(bindparam("row_limit"))
        if after is not None:
            query = query.where(TrialTable.candidate_number > bindparam("after"))
        if failed_only or reason is not None:
            query = query.where(TrialTable.failure_reason.is_not(None))
        if reason is not None:
            query = query.where(TrialTable.failure_reason == bindparam("reason"))
        values: dict[str, object] = {"tenant": tenant, "exploration_id": exploration_id}
        values |= {"row_limit": limit, "after": after, "reason": reason}
        with self._database.reading() as connection:
            exploration_of(connection, tenant, exploration_id)
            rows = connection.execute(query, values).all()
            values["numbers"] = [row.candidate_number for row in rows]
            dispatches = connection.execute(_DISPATCHES_OF_PAGE, values)
            return _with_attempts(rows, dispatches, connection.execute(_DOCUMENTS_OF_PAGE, values))


def _with_attempts(
    rows: Iterable[AnyRow], dispatches: Iterable[AnyRow], documents: Iterable[AnyRow]
) -> list[StoredTrial]:
    latest = {row.candidate_number: row for row in dispatches}
    measured: dict[int, Measurement] = {}
    for row in documents:
        attempt = Measurement.model_validate_json(row.document)
        earlier = measured.get(row.candidate_number)
        was_timed = earlier is not None and not isinstance(earlier.result, Failed)
        if attempt.came_to_an_end or not was_timed:
            measured[row.candidate_number] = attempt
    return [
        _stored(row, latest[row.candidate_number], measured.get(row.candidate_number))
        for row in rows
        if row.candidate_number in latest
    ]


def _insert_candidates(connection: Connection, tenant: str, candidates: Sequence[Candidate]) -> None:
    if not candidates:
        return
    statement = insert_once(connection, TrialTable)
    inserted = connection.execute(statement, [_candidate_values(tenant, c) for c in candidates]).rowcount
    if inserted == len(candidates):
        return
    for candidate in candidates:
        key = {
            "tenant": tenant,
            "exploration_id": candidate.exploration_id,
            "candidate_number": candidate.number,
        }
        if connection.execute(_TRACE, key).scalar_one() != candidate.trace.text:
            raise StoreConflict("trial", str(candidate.number))


def _insert_dispatches(connection: Connection, lease: Lease, dispatches: Sequence[Dispatch]) -> None:
    if not dispatches:
        return
    inserted = connection.execute(
        insert_once(connection, DispatchTable), [_dispatch_values(lease, d) for d in dispatches]
    ).rowcount
    if inserted != len(dispatches):
        raise StoreConflict("attempt", ", ".join(str(d.candidate.number) for d in dispatches))
    again = [
        {
            "of_tenant": lease.tenant,
            "of_exploration": dispatch.candidate.exploration_id,
            "of_number": dispatch.candidate.number,
        }
        for dispatch in dispatches
        if dispatch.attempt > 1 and dispatch.purpose is Purpose.SEARCH
    ]
    if again:
        connection.execute(_MARK_DISPATCHED, again)


def _candidate_values(tenant: str, candidate: Candidate) -> dict[str, object]:
    return {
        "tenant": tenant,
        "exploration_id": candidate.exploration_id,
        "candidate_number": candidate.number,
        "trace": candidate.trace.text,
        "module_hash": candidate.module_hash,
        "origin": candidate.origin.value,
        "predicted_score": candidate.predicted_score,
        "predicted_build_s": candidate.predicted_build_s,
        "state": TrialState.DISPATCHED.value,
        "is_counted": False,
    }


def _dispatch_values(lease: Lease, dispatch: Dispatch) -> dict[str, object]:
    return {
        "tenant": lease.tenant,
        "exploration_id": dispatch.candidate.exploration_id,
        "candidate_number": dispatch.candidate.number,
        "attempt": dispatch.attempt,
        "purpose": dispatch.purpose.value,
        "dispatch_id": dispatch.dispatch_id,
        "job_id": lease.job_id,
        "nonce": dispatch.nonce,
        "fence": dispatch.fence,
    }


def _stored(row: AnyRow, dispatch: AnyRow, measurement: Measurement | None) -> StoredTrial:
    candidate = Candidate(
        exploration_id=row.exploration_id,
        number=row.candidate_number,
        trace=Trace(text=row.trace),
        module_hash=row.module_hash,
        origin=CandidateOrigin(row.origin),
        predicted_score=row.predicted_score,
        predicted_build_s=row.predicted_build_s,
    )
    return StoredTrial(
        candidate=candidate,
        state=TrialState(row.state),
        dispatch=Dispatch(
            dispatch_id=dispatch.dispatch_id,
            nonce=dispatch.nonce,
            fence=dispatch.fence,
            attempt=dispatch.attempt,
            purpose=Purpose(dispatch.purpose),
            candidate=candidate,
        ),
        measurement=measurement,
        job_id=dispatch.job_id,
    )
