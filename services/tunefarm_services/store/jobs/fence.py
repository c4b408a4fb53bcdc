"""Fencing: writes under a lost lease are rejected."""

from typing import Final

from sqlalchemy import Connection, and_, bindparam, literal_column, or_, select

from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store_error import FenceLost, NotFound
from tunefarm_services.store.tables import ExplorationTable, JobTable

# Locks the row, so that no other owner can take the job over before the writer's transaction ends.
_JOB: Final = (
    select(JobTable.fence, JobTable.owner)
    .where(JobTable.tenant == bindparam("tenant"), JobTable.job_id == bindparam("job_id"))
    .with_for_update()
)

_EXPLORATION: Final = (
    select(ExplorationTable.holder_job_id, ExplorationTable.holder_fence)
    .where(
        ExplorationTable.tenant == bindparam("tenant"), ExplorationTable.exploration_id == bindparam("exploration_id")
    )
    .with_for_update()
)

# Both rows in one query, locked in the usual order: the job before the exploration.
_JOB_AND_EXPLORATION: Final = (
    select(JobTable.fence, JobTable.owner, ExplorationTable.holder_job_id, ExplorationTable.holder_fence)
    .join(ExplorationTable, ExplorationTable.tenant == JobTable.tenant)
    .where(
        JobTable.tenant == bindparam("tenant"),
        JobTable.job_id == bindparam("job_id"),
        ExplorationTable.exploration_id == bindparam("exploration_id"),
    )
    .with_for_update()
)

# An exploration keeps the job and the fence of its last holder, since a holder that dies clears nothing. They count
# only while that very lease lasts: after a takeover the job has a higher fence, and the new owner must hold it again.
_LIVE_HOLDER: Final = select(JobTable.job_id).where(
    JobTable.tenant == bindparam("tenant"),
    JobTable.job_id == bindparam("job_id"),
    JobTable.fence == bindparam("fence"),
    JobTable.owner.is_not(None),
    JobTable.lease_expires_at > bindparam("now_s"),
)

# The exact expression of the queue's partial index; neither database uses the index for any other.
IS_OPEN: Final = JobTable.state != literal_column("'finished'")
"""Whether a job is queued, running or paused."""

IS_FREE: Final = or_(
    JobTable.owner.is_(None),
    and_(JobTable.lease_expires_at.is_not(None), JobTable.lease_expires_at <= bindparam("now_s")),
)
"""Whether no owner holds a job at ``now_s``."""


def require_fence(connection: Connection, lease: Lease) -> None:
    """Raise FenceLost unless ``lease`` is the job's current one; lock the job's row until the transaction ends.

    An expired lease still counts until another owner takes the job over: until then there is no other writer, and the
    measurements of a tuner whose host was suspended for a while are valid.
    """
    row = connection.execute(_JOB, {"tenant": lease.tenant, "job_id": lease.job_id}).one_or_none()
    if row is None or row.fence != lease.fence or row.owner != lease.owner:
        raise FenceLost(f"job {lease.job_id}", lease.fence)


def require_exploration(connection: Connection, lease: Lease, exploration_id: str) -> None:
    """Raise FenceLost unless ``lease`` is the job's and holds the exploration; NotFound if it does not exist.

    Locks both rows until the transaction ends.
    """
    asked = {"tenant": lease.tenant, "job_id": lease.job_id, "exploration_id": exploration_id}
    found = connection.execute(_JOB_AND_EXPLORATION, asked).one_or_none()
    if found is not None and tuple(found) == (lease.fence, lease.owner, lease.job_id, lease.fence):
        return
    # Not held: ask for each row alone, only to raise the error that names what is missing or lost.
    require_fence(connection, lease)
    holder = _holder(connection, lease.tenant, exploration_id)
    if holder != (lease.job_id, lease.fence):
        raise FenceLost(f"exploration {exploration_id}", lease.fence)


def is_held_by_another(connection: Connection, lease: Lease, tenant: str, exploration_id: str, now_s: float) -> bool:
    """Whether another job with a live lease holds the exploration. Raises NotFound if it does not exist.

    Locks its row until the transaction ends.
    """
    job_id, fence = _holder(connection, tenant, exploration_id)
    if job_id is None or (tenant, job_id) == (lease.tenant, lease.job_id):
        return False  # an earlier owner of the same job has a lower fence, so that it can write nothing
    values = {"tenant": tenant, "job_id": job_id, "fence": fence, "now_s": now_s}
    return connection.execute(_LIVE_HOLDER, values).first() is not None


def _holder(connection: Connection, tenant: str, exploration_id: str) -> tuple[str | None, int | None]:
    row = connection.execute(_EXPLORATION, {"tenant": tenant, "exploration_id": exploration_id}).one_or_none()
    if row is None:
        raise NotFound("exploration", exploration_id)
    return row.holder_job_id, row.holder_fence
