"""Explorations: one for each key, held by one job at a time."""

from typing import Final

from sqlalchemy import Connection, Select, bindparam, select, update

from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.tuning.job import EffortSpent, Exploration, ExplorationKey, StopReason
from tunefarm_services.store.catalog.workload_repository import require_workload
from tunefarm_services.store.database.insert_once import insert_once
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.jobs.fence import is_held_by_another, require_exploration, require_fence
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.tables import ExplorationTable, JobExplorationTable
from tunefarm_services.store.tenants.sharing_group_repository import partners_of
from tunefarm_services.store.trials.lost_trials import close_lost_trials

_BY_ID: Final = select(ExplorationTable).where(
    ExplorationTable.tenant == bindparam("tenant"), ExplorationTable.exploration_id == bindparam("exploration_id")
)
_LOCKED: Final = _BY_ID.with_for_update()
_OF_JOB: Final = (
    select(ExplorationTable)
    .join(
        JobExplorationTable,
        (JobExplorationTable.tenant == ExplorationTable.tenant)
        & (JobExplorationTable.exploration_id == ExplorationTable.exploration_id),
    )
    .where(JobExplorationTable.tenant == bindparam("tenant"), JobExplorationTable.job_id == bindparam("job_id"))
    .order_by(ExplorationTable.exploration_id)
)
_CHANGE: Final = update(ExplorationTable).where(
    ExplorationTable.tenant == bindparam("of_tenant"),
    ExplorationTable.exploration_id == bindparam("of_exploration"),
)
_HOLD: Final = _CHANGE.values(holder_job_id=bindparam("by_job"), holder_fence=bindparam("by_fence"))
_CLEAR: Final = _CHANGE.where(ExplorationTable.holder_job_id.is_not(None)).values(holder_job_id=None, holder_fence=None)
_SPEND: Final = _CHANGE.values(
    spent_trials=ExplorationTable.spent_trials + bindparam("more_trials"),
    spent_seconds=ExplorationTable.spent_seconds + bindparam("more_seconds"),
    stop_reason=bindparam("reason"),
)
_VERIFIED: Final = _CHANGE.values(verified_trials=ExplorationTable.spent_trials)


class ExplorationRepository(Repository):
    """Explorations with their effort and holder."""

    @retried
    def open(self, lease: Lease, key: ExplorationKey) -> Exploration:
        """Return the exploration of ``key``, created if missing. Raises FenceLost, NotFound for its workload."""
        if key.tenant != lease.tenant:
            raise ValueError("an exploration belongs to the tenant of its job")
        with self._database.writing() as connection:
            require_fence(connection, lease)
            require_workload(connection, key.tenant, key.workload_id)
            connection.execute(insert_once(connection, ExplorationTable), _values(key))
            opened = {"tenant": key.tenant, "job_id": lease.job_id, "exploration_id": key.exploration_id}
            connection.execute(insert_once(connection, JobExplorationTable), opened)
            return exploration_of(connection, key.tenant, key.exploration_id)

    def get(self, tenant: str, exploration_id: str) -> Exploration:
        """One exploration. Raises NotFound."""
        with self._database.reading() as connection:
            return exploration_of(connection, tenant, exploration_id)

    def of_workload(self, tenant: str, workload_id: str) -> list[Exploration]:
        """Every exploration of a workload."""
        query = select(ExplorationTable).where(
            ExplorationTable.tenant == tenant, ExplorationTable.workload_id == workload_id
        )
        with self._database.reading() as connection:
            return [_exploration(row) for row in connection.execute(query.order_by(ExplorationTable.created_at))]

    def of_job(self, tenant: str, job_id: str) -> list[Exploration]:
        """Every exploration that a job has opened, by id; a job that never had a lease has opened none."""
        with self._database.reading() as connection:
            rows = connection.execute(_OF_JOB, {"tenant": tenant, "job_id": job_id})
            return [_exploration(row) for row in rows]

    @retried
    def hold(self, lease: Lease, exploration_id: str) -> bool:
        """Hold the exploration while ``lease`` holds the job; False if another live job holds it.

        Also False if a live job of another tenant of the sharing group holds its own exploration of the same key. One
        whose lease has expired holds it no longer. Only the holder may write trials and measurements. A trial whose
        second attempt was lost by a former holder is closed as a crash: no candidate is sent a third time. Raises
        FenceLost, NotFound.
        """
        with self._database.writing() as connection:
            require_fence(connection, lease)
            own = exploration_of(connection, lease.tenant, exploration_id)
            now_s = self._database.now_s(connection)
            partners = lock_with_partners(connection, own.key)
            for each in (own, *partners):
                if is_held_by_another(connection, lease, each.key.tenant, each.exploration_id, now_s):
                    return False
            for each in partners:  # a former holder may wake up, and its job still has the same fence
                connection.execute(_CLEAR, {"of_tenant": each.key.tenant, "of_exploration": each.exploration_id})
            values = {"of_tenant": lease.tenant, "of_exploration": exploration_id}
            connection.execute(_HOLD, values | {"by_job": lease.job_id, "by_fence": lease.fence})
            close_lost_trials(connection, lease, exploration_id)
            return True

    @retried
    def add_effort(
        self, lease: Lease, exploration_id: str, trials: int, seconds: float, stop_reason: StopReason | None
    ) -> Exploration:
        """Add spent effort, and set the reason for which the search stopped, or None.

        ``MeasurementRepository.commit`` counts trials itself, so ``trials`` is normally 0. Raises FenceLost.
        """
        with self._database.writing() as connection:
            require_exploration(connection, lease, exploration_id)
            values = {
                "of_tenant": lease.tenant,
                "of_exploration": exploration_id,
                "more_trials": trials,
                "more_seconds": seconds,
                "reason": None if stop_reason is None else stop_reason.value,
            }
            connection.execute(_SPEND, values)
            return exploration_of(connection, lease.tenant, exploration_id)

    @retried
    def set_verified(self, lease: Lease, exploration_id: str) -> None:
        """Record that the fastest of all trials so far were verified. Raises FenceLost."""
        with self._database.writing() as connection:
            require_exploration(connection, lease, exploration_id)
            connection.execute(_VERIFIED, {"of_tenant": lease.tenant, "of_exploration": exploration_id})


def exploration_of(connection: Connection, tenant: str, exploration_id: str) -> Exploration:
    """One exploration, within the caller's transaction. Raises NotFound."""
    row = connection.execute(_BY_ID, {"tenant": tenant, "exploration_id": exploration_id}).one_or_none()
    if row is None:
        raise NotFound("exploration", exploration_id)
    return _exploration(row)


def has_partners(connection: Connection, key: ExplorationKey) -> bool:
    """Whether another tenant of the sharing group has an exploration of the same key."""
    return any(each.key.tenant != key.tenant for each in _of_group(connection, key, _BY_ID))


def lock_with_partners(connection: Connection, key: ExplorationKey) -> list[Exploration]:
    """Lock the explorations that the sharing group has of the key, and return those of the other tenants.

    In the order of tenants, as all do that lock several, so that no two transactions wait for each other.
    """
    return [each for each in _of_group(connection, key, _LOCKED) if each.key.tenant != key.tenant]


def _of_group(connection: Connection, key: ExplorationKey, query: Select[ExplorationTable]) -> list[Exploration]:
    others = [] if key.fresh_for else partners_of(connection, key.tenant)  # a fresh one belongs to one job
    keys = [key.model_copy(update={"tenant": each}) for each in sorted([key.tenant, *others])]
    named = [{"tenant": each.tenant, "exploration_id": each.exploration_id} for each in keys]
    rows = [connection.execute(query, values).one_or_none() for values in named]
    return [_exploration(row) for row in rows if row is not None]


def _values(key: ExplorationKey) -> dict[str, object]:
    return key.model_dump() | {
        "exploration_id": key.exploration_id,
        "spent_trials": 0,
        "spent_seconds": 0.0,
        "verified_trials": 0,
        "created_at": utc_now(),
    }


def _exploration(row: AnyRow) -> Exploration:
    key = ExplorationKey.model_validate({name: getattr(row, name) for name in ExplorationKey.model_fields})
    stop_reason = None if row.stop_reason is None else StopReason(row.stop_reason)
    spent = EffortSpent(trials=row.spent_trials, seconds=row.spent_seconds, stop_reason=stop_reason)
    return Exploration(
        exploration_id=row.exploration_id,
        key=key,
        spent=spent,
        best_latency_s=row.best_latency_s,
        verified_trials=row.verified_trials,
    )
