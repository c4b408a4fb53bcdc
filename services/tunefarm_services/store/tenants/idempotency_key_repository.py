"""Idempotency keys: a repeated request gets the first response."""

import json
from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, bindparam, delete, select, update

from tunefarm_services.store.database.insert_once import insert_once
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.tables import IdempotencyKeyTable
from tunefarm_services.store.tenants.key_claim import Answered, Claimed, InProgress, KeyClaim, Mismatch

KEPT_S: Final = 24 * 3600.0
"""How long a key is kept, in seconds."""

CLAIM_LASTS_S: Final = 6.0
"""A claim expires if it is not renewed for this many seconds. Less than a client's timeout for retries."""
_OF_KEY: Final = (
    select(IdempotencyKeyTable)
    .where(IdempotencyKeyTable.tenant == bindparam("tenant"), IdempotencyKeyTable.key == bindparam("key"))
    .with_for_update()
)
_CHANGE: Final = update(IdempotencyKeyTable).where(
    IdempotencyKeyTable.tenant == bindparam("of_tenant"), IdempotencyKeyTable.key == bindparam("of_key")
)
_DELETE: Final = delete(IdempotencyKeyTable).where(
    IdempotencyKeyTable.tenant == bindparam("of_tenant"),
    IdempotencyKeyTable.key == bindparam("of_key"),
    IdempotencyKeyTable.status.is_(None),
    IdempotencyKeyTable.job_id.is_(None),
)


class IdempotencyKeyRepository(Repository):
    """Keys, claims and responses of repeatable requests."""

    @retried
    def claim(self, tenant: str, key: str, request_digest: str) -> KeyClaim:
        """Claim the execution of a request. Keys are deleted a day after their first use.

        A claim that was not renewed for ``CLAIM_LASTS_S`` can be claimed again: its holder was killed. A job that it
        created is not created again if the key is passed to ``JobRepository.create``.
        """
        with self._database.writing() as connection:
            now_s = self._database.now_s(connection)
            new = _new(tenant, key, request_digest, now_s)
            if connection.execute(insert_once(connection, IdempotencyKeyTable), new).rowcount:
                return Claimed()
            row = connection.execute(_OF_KEY, {"tenant": tenant, "key": key}).one_or_none()
            if row is None:
                # Deleted at this very moment: the next request can claim it.
                return InProgress()
            of_key = {"of_tenant": tenant, "of_key": key}
            if row.created_s <= now_s - KEPT_S:
                blank = {"job_id": None, "status": None, "headers": None, "body": None}
                connection.execute(_CHANGE.values(new | blank), of_key)
                return Claimed()
            claim = _claim_of(row, request_digest, now_s)
            if isinstance(claim, Claimed):
                connection.execute(_CHANGE.values(claimed_s=now_s), of_key)
            return claim

    @retried
    def renew(self, tenant: str, key: str) -> None:
        """Extend the claim. No effect if the key was deleted."""
        with self._database.writing() as connection:
            now_s = self._database.now_s(connection)
            connection.execute(_CHANGE.values(claimed_s=now_s), {"of_tenant": tenant, "of_key": key})

    @retried
    def answer(self, tenant: str, key: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Store the response to a claimed request. No effect if the key was deleted."""
        values = {"status": status, "headers": json.dumps(dict(headers)), "body": body}
        with self._database.writing() as connection:
            connection.execute(_CHANGE.values(values), {"of_tenant": tenant, "of_key": key})

    @retried
    def forget(self, tenant: str, key: str) -> None:
        """Allow the request to be repeated at once, because it failed or was interrupted.

        Keeps a response that another holder of the expired claim has stored, and a job created before the failure, so
        that the next request finds them.
        """
        of_key = {"of_tenant": tenant, "of_key": key}
        with self._database.writing() as connection:
            if not connection.execute(_DELETE, of_key).rowcount:
                connection.execute(_CHANGE.values(claimed_s=0.0), of_key)


def job_of_key(connection: Connection, tenant: str, key: str) -> str | None:
    """The job that the request with this key created, if any. Raises NotFound unless the key is claimed."""
    row = connection.execute(_OF_KEY, {"tenant": tenant, "key": key}).one_or_none()
    if row is None:
        raise NotFound("idempotency key", key)
    job_id: str | None = row.job_id
    return job_id


def store_job_of_key(connection: Connection, tenant: str, key: str, job_id: str) -> None:
    """Store, in the transaction that creates it, the job of the request with this key."""
    connection.execute(_CHANGE.values(job_id=job_id), {"of_tenant": tenant, "of_key": key})


def _claim_of(row: AnyRow, request_digest: str, now_s: float) -> KeyClaim:
    if row.request_digest != request_digest:
        return Mismatch()
    if row.status is not None:
        return Answered(status=row.status, headers=json.loads(row.headers), body=bytes(row.body))
    return Claimed() if row.claimed_s <= now_s - CLAIM_LASTS_S else InProgress()


def _new(tenant: str, key: str, request_digest: str, now_s: float) -> dict[str, object]:
    return {
        "tenant": tenant,
        "key": key,
        "request_digest": request_digest,
        "created_s": now_s,
        "claimed_s": now_s,
    }
