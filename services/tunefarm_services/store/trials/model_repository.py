"""Saved cost models."""

from typing import Final

from sqlalchemy import Connection, bindparam, delete, insert, select

from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.frozen import digest
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.stored import StoredModel
from tunefarm_services.store.tables import ModelSnapshotTable

_MAX_SNAPSHOTS: Final = 3
_MAX_TRIALS_RATIO: Final = 4
_NEWEST: Final = (
    select(ModelSnapshotTable)
    .where(
        ModelSnapshotTable.tenant == bindparam("tenant"),
        ModelSnapshotTable.target_id == bindparam("target_id"),
        ModelSnapshotTable.device_class_id == bindparam("device_class_id"),
    )
    .order_by(ModelSnapshotTable.snapshot_number.desc())
)
_INSERT: Final = insert(ModelSnapshotTable)


class ModelRepository(Repository):
    """Cost models by target and device class."""

    @retried
    def put(self, tenant: str, target_id: str, device_class_id: str, model_json: bytes, trials: int) -> None:
        """Save a model trained on ``trials`` trials. The last few are kept.

        Ignores a model with less than a quarter of the last one's trials: a short search must not replace what several
        long ones learned.
        """
        key: dict[str, object] = {"tenant": tenant, "target_id": target_id, "device_class_id": device_class_id}
        with self._database.reading() as connection:
            if _is_outdone(connection, key, trials):
                return
        model = self._put(model_json)
        with self._database.writing() as connection:
            if _is_outdone(connection, key, trials):
                return
            self._keep(connection, model)
            row = {"model_digest": digest(model_json), "trials": trials, "created_at": utc_now()}
            connection.execute(_INSERT, key | row)
            _delete_old(connection, key)

    def latest(self, tenant: str, target_id: str, device_class_id: str) -> StoredModel | None:
        """The last saved model, or None. Raises BlobMissing, BlobDamaged."""
        key = {"tenant": tenant, "target_id": target_id, "device_class_id": device_class_id}
        with self._database.reading() as connection:
            row = connection.execute(_NEWEST.limit(1), key).one_or_none()
        if row is None:
            return None
        return StoredModel(model_json=self._blobs.get(row.model_digest), trials=row.trials, created_at=row.created_at)


def _is_outdone(connection: Connection, key: dict[str, object], trials: int) -> bool:
    last = connection.execute(_NEWEST.limit(1), key).one_or_none()
    return last is not None and _MAX_TRIALS_RATIO * trials < last.trials


def _delete_old(connection: Connection, key: dict[str, object]) -> None:
    old = [row.snapshot_number for row in connection.execute(_NEWEST.offset(_MAX_SNAPSHOTS).limit(100), key)]
    if old:
        connection.execute(delete(ModelSnapshotTable).where(ModelSnapshotTable.snapshot_number.in_(old)))
