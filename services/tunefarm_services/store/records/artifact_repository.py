"""Artifacts: manifests as rows, libraries as blobs."""

from typing import Final

from sqlalchemy import bindparam, insert, select

from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.records.record_repository import record_of
from tunefarm_services.store.store_error import NotFound, StoreConflict
from tunefarm_services.store.tables import ArtifactTable

_BY_ID: Final = select(ArtifactTable.manifest).where(
    ArtifactTable.tenant == bindparam("tenant"), ArtifactTable.artifact_id == bindparam("artifact_id")
)
_INSERT: Final = insert(ArtifactTable)


class ArtifactRepository(Repository):
    """Compiled libraries with their manifests."""

    @retried
    def put(self, tenant: str, manifest: ArtifactManifest, library: bytes) -> ArtifactManifest:
        """Store a library with its manifest once.

        Raises ValueError if the manifest has another digest, NotFound if its record is not stored, and StoreConflict if
        another artifact has this id.
        """
        if digest(library) != manifest.library_digest:
            raise ValueError("library_digest is not the digest of the library")
        blob = self._put(library)
        with self._database.writing() as connection:
            record_of(connection, tenant, manifest.record_id)
            self._keep(connection, blob)
            key = {"tenant": tenant, "artifact_id": manifest.artifact_id}
            stored = connection.execute(_BY_ID, key).scalar()
            if stored is None:
                connection.execute(_INSERT, _values(tenant, manifest))
            elif ArtifactManifest.model_validate_json(stored) != manifest:
                raise StoreConflict("artifact", manifest.artifact_id)
        return manifest

    def get(self, tenant: str, artifact_id: str) -> tuple[ArtifactManifest, bytes]:
        """An artifact and its library. Raises NotFound, BlobMissing, BlobDamaged."""
        with self._database.reading() as connection:
            stored = connection.execute(_BY_ID, {"tenant": tenant, "artifact_id": artifact_id}).scalar()
            if stored is None:
                raise NotFound("artifact", artifact_id)
            manifest = ArtifactManifest.model_validate_json(stored)
        return manifest, self._blobs.get(manifest.library_digest)

    def newest_first(self, tenant: str, record_id: str | None = None) -> list[ArtifactManifest]:
        """Manifests, newest first, of one record or of all."""
        query = select(ArtifactTable.manifest).where(ArtifactTable.tenant == tenant)
        if record_id is not None:
            query = query.where(ArtifactTable.record_id == record_id)
        newest_first = query.order_by(ArtifactTable.created_at.desc(), ArtifactTable.artifact_id)
        with self._database.reading() as connection:
            stored = connection.execute(newest_first).scalars().all()
            return [ArtifactManifest.model_validate_json(manifest) for manifest in stored]

    def page(
        self, tenant: str, record_id: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[ArtifactManifest]:
        """Manifests by id, at most ``limit``, after the artifact ``after``, of one record or of all."""
        query = select(ArtifactTable.manifest).where(ArtifactTable.tenant == tenant)
        if record_id is not None:
            query = query.where(ArtifactTable.record_id == record_id)
        if after is not None:
            query = query.where(ArtifactTable.artifact_id > after)
        with self._database.reading() as connection:
            stored = connection.execute(query.order_by(ArtifactTable.artifact_id).limit(limit)).scalars().all()
            return [ArtifactManifest.model_validate_json(manifest) for manifest in stored]


def _values(tenant: str, manifest: ArtifactManifest) -> dict[str, object]:
    return {
        "tenant": tenant,
        "artifact_id": manifest.artifact_id,
        "record_id": manifest.record_id,
        "workload_id": manifest.workload_id,
        "library_digest": manifest.library_digest,
        "manifest": manifest.model_dump_json(),
        "created_at": manifest.created_at,
    }
