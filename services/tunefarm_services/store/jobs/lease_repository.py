"""Leases on jobs."""

from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, bindparam, select, update

from tunefarm_schemas.tuning.job import JobState
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.jobs.fence import IS_FREE, IS_OPEN
from tunefarm_services.store.jobs.job_repository import apply_request
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.stored import JobRequest
from tunefarm_services.store.tables import JobTable

# Skips jobs that another transaction is taking, instead of waiting for it.
FREE: Final = (
    select(JobTable.job_id)
    .where(JobTable.tenant == bindparam("tenant"), JobTable.job_id == bindparam("job_id"))
    .where(JobTable.state != JobState.FINISHED.value, IS_FREE)
    .with_for_update(skip_locked=True)
)
# The database raises the fence in the statement that sets the owner, so that no two leases of a job share one.
_LEASE: Final = (
    update(JobTable)
    .where(JobTable.tenant == bindparam("of_tenant"), JobTable.job_id == bindparam("of_job"))
    .values(fence=JobTable.fence + 1, owner=bindparam("new_owner"), lease_expires_at=bindparam("until_s"))
    .returning(JobTable.fence)
)
_HELD: Final = update(JobTable).where(
    JobTable.tenant == bindparam("of_tenant"),
    JobTable.job_id == bindparam("of_job"),
    JobTable.fence == bindparam("held_fence"),
    JobTable.owner == bindparam("held_owner"),
)
_OWNERS: Final = select(JobTable.tenant, JobTable.owner).distinct().where(IS_OPEN, JobTable.owner.is_not(None))
# By the owner's name, which is unique: between the search for dead owners and this, another may have leased the job.
# The fence can stay, because a write needs the owner's name as well, and the next lease raises it.
_RELEASE_ALL: Final = (
    update(JobTable)
    .where(IS_OPEN, JobTable.tenant == bindparam("of_tenant"), JobTable.owner == bindparam("gone_owner"))
    .values(lease_expires_at=None, owner=None)
)
# Also after the expiry: if no other owner took the job meanwhile, a process that was paused goes on with it.
_RENEW: Final = _HELD.values(lease_expires_at=bindparam("until_s"))
_RELEASE: Final = _HELD.values(lease_expires_at=None, owner=None).returning(JobTable.state, JobTable.request)


class LeaseRepository(Repository):
    """Owners of jobs, and the expiry of their leases."""

    @retried
    def acquire(self, tenant: str, job_id: str, owner: str, seconds: float) -> Lease | None:
        """Lease a job, paused or not, for ``seconds``; None if another owner holds it or it is finished."""
        with self._database.writing() as connection:
            now_s = self._database.now_s(connection)
            values = {"tenant": tenant, "now_s": now_s, "job_id": job_id}
            if connection.execute(FREE, values).scalar() is None:
                return None
            return take(connection, tenant, job_id, owner, now_s + seconds)

    @retried
    def renew(self, lease: Lease, seconds: float) -> Lease | None:
        """Extend the lease to ``seconds`` from now. Returns None if the job was taken over or released."""
        with self._database.writing() as connection:
            until_s = self._database.now_s(connection) + seconds
            if connection.execute(_RENEW, _held(lease) | {"until_s": until_s}).rowcount == 0:
                return None
            return Lease(lease.tenant, lease.job_id, lease.owner, lease.fence, until_s)

    @retried
    def release(self, lease: Lease) -> None:
        """Release the job with all explorations it holds, and apply its pending request.

        No effect if the job was taken over.
        """
        with self._database.writing() as connection:
            row = connection.execute(_RELEASE, _held(lease)).one_or_none()
            # In the same transaction: a request that came while the job was held waits for its owner to read it, and
            # after the release there is none. A later request finds the job free and takes effect at once.
            if row is not None and row.request is not None and row.state != JobState.FINISHED.value:
                wanted = JobRequest(row.request)
                apply_request(connection, lease.tenant, lease.job_id, JobState(row.state), wanted)

    @retried
    def release_abandoned(self, tenant: str | None, is_gone: Callable[[str], bool]) -> None:
        """Release the jobs of every owner for which ``is_gone`` returns true, before their leases expire.

        Of one tenant, or of all for None.
        """
        query = _OWNERS if tenant is None else _OWNERS.where(JobTable.tenant == tenant)
        with self._database.reading() as connection:
            owners = connection.execute(query).all()
        gone = [{"of_tenant": row.tenant, "gone_owner": row.owner} for row in owners if is_gone(str(row.owner))]
        if gone:
            with self._database.writing() as connection:
                connection.execute(_RELEASE_ALL, gone)


def take(connection: Connection, tenant: str, job_id: str, owner: str, until_s: float) -> Lease:
    """Lease a free job to ``owner`` with the next fence, within the caller's transaction."""
    taken = {"of_tenant": tenant, "of_job": job_id, "new_owner": owner, "until_s": until_s}
    fence = connection.execute(_LEASE, taken).scalar_one()
    return Lease(tenant, job_id, owner, fence, until_s)


def _held(lease: Lease) -> dict[str, object]:
    return {
        "of_tenant": lease.tenant,
        "of_job": lease.job_id,
        "held_fence": lease.fence,
        "held_owner": lease.owner,
    }
