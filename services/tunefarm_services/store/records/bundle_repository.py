"""Bundles: what tenants ask for, the leases of those who build them, and the archives that they made."""

import secrets
import time
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Update, and_, bindparam, delete, func, literal_column, or_, select, update

from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.bundle import BundleManifest, BundleOrder
from tunefarm_schemas.views.bundle import BundleView
from tunefarm_services.store.database.insert_once import insert_once
from tunefarm_services.store.database.repository import AFTER_HEX_DIGITS, AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.store_error import NotFound, QuotaExceeded
from tunefarm_services.store.tables import BundleTable

MAX_ATTEMPTS: Final = 3
"""Builders that may die of one bundle."""
_POISONED: Final = f"{MAX_ATTEMPTS} processes died while they built it"
# The exact expression of the partial index.
_IS_OPEN: Final = BundleTable.state != literal_column("'finished'")
_IS_FREE: Final = or_(BundleTable.owner.is_(None), BundleTable.lease_expires_at <= bindparam("now_s"))
_OF_TENANT: Final = and_(BundleTable.tenant == bindparam("of_tenant"), BundleTable.bundle_id == bindparam("of_bundle"))
_ONE: Final = select(BundleTable).where(_OF_TENANT)
_RUNNING: Final = (
    select(BundleTable.tenant, func.count().label("bundles"))
    .where(_IS_OPEN, BundleTable.owner.is_not(None), BundleTable.lease_expires_at > bindparam("now_s"))
    .group_by(BundleTable.tenant)
    .subquery()
)
_NEXT: Final = (
    select(BundleTable)
    .outerjoin(_RUNNING, _RUNNING.c.tenant == BundleTable.tenant)
    .where(_IS_OPEN, _IS_FREE)
    .order_by(func.coalesce(_RUNNING.c.bundles, 0), BundleTable.attempts, BundleTable.created_at, BundleTable.bundle_id)
    .limit(1)
    # Skips bundles that another transaction is taking, instead of waiting for it.
    .with_for_update(skip_locked=True, of=BundleTable)
)
_CHANGE: Final = update(BundleTable).where(_OF_TENANT)
_HELD: Final = _CHANGE.where(
    _IS_OPEN, BundleTable.owner == bindparam("held_owner"), BundleTable.attempts == bindparam("held_attempt")
)
_FREED: Final = {"owner": None, "lease_expires_at": None}


@dataclass(frozen=True, slots=True)
class BundleLease:
    """The right to build a bundle. ``attempt`` fences writes: it rises each time that the bundle is leased."""

    tenant: str
    bundle_id: str
    owner: str
    attempt: int
    order: BundleOrder


class BundleQuota(NamedTuple):
    """How many bundles of a tenant may be unfinished, and above which size of all together it may ask for no more."""

    unfinished: int
    size_bytes: int


class BundleRepository(Repository):
    """Bundles of tenants."""

    @retried
    def create(
        self, tenant: str, order: BundleOrder, key: str | None = None, quota: BundleQuota | None = None
    ) -> BundleView:
        """Queue a bundle. With ``key``, repeats of the order create only one. Raises QuotaExceeded."""
        bundle_id = _new_id() if key is None else digest(f"{key}\0{order.model_dump_json()}")[:21]
        row = {
            "tenant": tenant,
            "bundle_id": bundle_id,
            "request": order.model_dump_json(),
            "state": "queued",
            "message": "",
            "created_at": utc_now(),
            "attempts": 0,
        }
        with self._database.writing() as connection:
            if quota is not None:
                self._database.lock_tenant(connection, tenant)
                key_of = {"of_tenant": tenant, "of_bundle": bundle_id}
                if connection.execute(_ONE, key_of).one_or_none() is None:
                    _require_room(connection, tenant, quota)
            connection.execute(insert_once(connection, BundleTable), row)
        return self.get(tenant, bundle_id)

    def require_room(self, tenant: str, quota: BundleQuota) -> None:
        """Raise QuotaExceeded if a tenant may ask for no more bundles; ``create`` asks again."""
        with self._database.reading() as connection:
            _require_room(connection, tenant, quota)

    def get(self, tenant: str, bundle_id: str) -> BundleView:
        """One bundle. Raises NotFound."""
        with self._database.reading() as connection:
            row = connection.execute(_ONE, {"of_tenant": tenant, "of_bundle": bundle_id}).one_or_none()
        if row is None:
            raise NotFound("bundle", bundle_id)
        return _view(row)

    def content(self, tenant: str, bundle_id: str) -> bytes:
        """The archive of a bundle. Raises NotFound until it was built, BlobMissing, BlobDamaged."""
        found = self.get(tenant, bundle_id)
        if found.content_digest is None:
            raise NotFound("content of bundle", bundle_id)
        return self._blobs.get(found.content_digest)

    def page(
        self, tenant: str, after: str | None = None, limit: int = 100, id_prefix: str | None = None
    ) -> list[BundleView]:
        """Bundles by id, at most ``limit``, after the bundle ``after``."""
        query = select(BundleTable).where(BundleTable.tenant == tenant).order_by(BundleTable.bundle_id).limit(limit)
        if after is not None:
            query = query.where(BundleTable.bundle_id > after)
        if id_prefix is not None:
            query = query.where(BundleTable.bundle_id.between(id_prefix, f"{id_prefix}{AFTER_HEX_DIGITS}"))
        with self._database.reading() as connection:
            return [_view(row) for row in connection.execute(query)]

    @retried
    def delete(self, tenant: str, bundle_id: str) -> None:
        """Delete a bundle. What builds it then writes nothing. Raises NotFound."""
        with self._database.writing() as connection:
            key = {"of_tenant": tenant, "of_bundle": bundle_id}
            if connection.execute(delete(BundleTable).where(_OF_TENANT), key).rowcount == 0:
                raise NotFound("bundle", bundle_id)

    @retried
    def lease_next(self, owner: str, seconds: float) -> BundleLease | None:
        """Lease the next bundle of any tenant for ``seconds``; None if there is none.

        Tenants with the fewest bundles in work come first, then the oldest bundle. A bundle that several builders died
        of is finished as failed instead.
        """
        with self._database.writing() as connection:
            now_s = self._database.now_s(connection)
            while (row := connection.execute(_NEXT, {"now_s": now_s}).one_or_none()) is not None:
                key = {"of_tenant": row.tenant, "of_bundle": row.bundle_id}
                # Counted when leased, not when failed: a builder that is killed reports nothing.
                if row.attempts >= MAX_ATTEMPTS:
                    connection.execute(_finished("failed", _POISONED, _CHANGE), key)
                    continue
                taken = {"state": "running", "owner": owner, "lease_expires_at": now_s + seconds}
                connection.execute(_CHANGE.values(taken | {"attempts": row.attempts + 1}), key)
                order = BundleOrder.model_validate_json(row.request)
                return BundleLease(row.tenant, row.bundle_id, owner, row.attempts + 1, order)
            return None

    @retried
    def renew(self, lease: BundleLease, seconds: float) -> bool:
        """Extend a lease to ``seconds`` from now. Returns False if the bundle was deleted or taken over."""
        with self._database.writing() as connection:
            until_s = self._database.now_s(connection) + seconds
            return connection.execute(_HELD.values(lease_expires_at=until_s), _held(lease)).rowcount == 1

    @retried
    def release(self, lease: BundleLease) -> None:
        """Return a bundle to the queue; the attempt does not count. No effect if it was deleted or taken over."""
        # The next lease may get the same number. The caller drops this one, and other owners have other names.
        values = {"state": "queued", "attempts": lease.attempt - 1, **_FREED}
        with self._database.writing() as connection:
            connection.execute(_HELD.values(values), _held(lease))

    @retried
    def finish(self, lease: BundleLease, manifest: BundleManifest, content: bytes, message: str = "") -> None:
        """Store what was built. No effect if the bundle was deleted or taken over."""
        values = {
            "manifest": manifest.model_dump_json(),
            "content_digest": digest(content),
            "content_bytes": len(content),
        }
        archive = self._put(content)
        with self._database.writing() as connection:
            self._keep(connection, archive)
            connection.execute(_finished("succeeded", message, _HELD).values(values), _held(lease))

    @retried
    def fail(self, lease: BundleLease, message: str) -> None:
        """Finish a bundle that cannot be built. No effect if it was deleted or taken over."""
        with self._database.writing() as connection:
            connection.execute(_finished("failed", message[:4000], _HELD), _held(lease))


def _require_room(connection: Connection, tenant: str, quota: BundleQuota) -> None:
    unfinished = select(func.count()).select_from(BundleTable).where(_IS_OPEN, BundleTable.tenant == tenant)
    kept = select(func.coalesce(func.sum(BundleTable.content_bytes), 0)).where(BundleTable.tenant == tenant)
    bundles = connection.execute(unfinished).scalar_one()
    if bundles >= quota.unfinished:
        raise QuotaExceeded(f"{bundles} bundles are not finished, which is the maximum for this tenant.")
    kept_bytes = int(connection.execute(kept).scalar_one() or 0)
    if kept_bytes >= quota.size_bytes:
        have = f"The tenant's bundles have {kept_bytes} bytes together."
        raise QuotaExceeded(f"{have} Delete one that is no longer needed.")


def _finished(outcome: str, message: str, change: Update) -> Update:
    values = {"state": "finished", "outcome": outcome, "message": message, "finished_at": utc_now()}
    return change.values({**values, **_FREED})


def _held(lease: BundleLease) -> dict[str, Any]:
    return {
        "of_tenant": lease.tenant,
        "of_bundle": lease.bundle_id,
        "held_owner": lease.owner,
        "held_attempt": lease.attempt,
    }


def _new_id() -> str:
    """Hexadecimal: milliseconds since the epoch, then random digits."""
    return f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(5)}"


def _view(row: AnyRow) -> BundleView:
    return BundleView(
        bundle_id=row.bundle_id,
        order=BundleOrder.model_validate_json(row.request),
        state=row.state,
        outcome=row.outcome,
        message=row.message,
        manifest=None if row.manifest is None else BundleManifest.model_validate_json(row.manifest),
        content_digest=row.content_digest,
        content_bytes=row.content_bytes,
        created_at=row.created_at,
        finished_at=row.finished_at,
    )
