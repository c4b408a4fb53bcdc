"""The models of jobs, as they were sent: what a bundle of a whole model is built from."""

from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.tables import JobTable

_MODEL: Final = select(JobTable.model_digest, JobTable.model_bytes).where(
    JobTable.tenant == bindparam("tenant"), JobTable.job_id == bindparam("job_id")
)


class KeptModel(NamedTuple):
    """The blob of a model, and its size."""

    digest: str
    size_bytes: int


class JobModelRepository(Repository):
    """Reads models of jobs. ``JobRepository.create`` writes them."""

    def kept(self, tenant: str, job_id: str) -> KeptModel | None:
        """Which model a job was created with; None if it was not sent with all of its weights. Raises NotFound."""
        with self._database.reading() as connection:
            return model_of(connection, tenant, job_id)

    def content(self, tenant: str, job_id: str) -> bytes:
        """The model of a job, TVM's JSON. Raises NotFound if it has none, BlobMissing, BlobDamaged."""
        kept = self.kept(tenant, job_id)
        if kept is None:
            raise NotFound("model of job", job_id)
        return self._blobs.get(kept.digest)

    def kept_bytes(self, tenant: str) -> int:
        """The size of all models of a tenant's jobs, each counted once."""
        of_tenant = (
            select(JobTable.model_digest, JobTable.model_bytes)
            .distinct()
            .where(JobTable.tenant == tenant, JobTable.model_digest.is_not(None))
            .subquery()
        )
        with self._database.reading() as connection:
            return int(
                connection.execute(select(func.coalesce(func.sum(of_tenant.c.model_bytes), 0))).scalar_one() or 0
            )


def model_of(connection: Connection, tenant: str, job_id: str) -> KeptModel | None:
    """The model of a job within the caller's transaction. Raises NotFound."""
    row = connection.execute(_MODEL, {"tenant": tenant, "job_id": job_id}).one_or_none()
    if row is None:
        raise NotFound("job", job_id)
    return None if row.model_digest is None else KeptModel(row.model_digest, int(row.model_bytes or 0))
