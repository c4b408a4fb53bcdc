"""Removal of old publications, and of the files that only they name."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ColumnElement, Connection, and_, delete, select

from tunefarm_schemas.edge.release import ChannelDocument
from tunefarm_schemas.frozen import Frozen
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.releases.release_repository import StoredReleases, named_target
from tunefarm_services.store.tables import (
    ChannelDocumentTable,
    ReleaseFilePieceTable,
    ReleaseFileTable,
    ReleaseMetadataTable,
    ReleasePublicationTable,
    ReleaseTargetTable,
)

if TYPE_CHECKING:
    from tuf.api.metadata import Metadata, Snapshot, Targets, Timestamp

_AT_ONCE: Final = 500


class PrunedReleases(Frozen):
    """How many rows were removed. Contents of files are removed with the next collection of blobs."""

    metadata: int = 0
    targets: int = 0
    files: int = 0


class _Kept:
    """What the kept publications of a tenant name."""

    def __init__(self, stored: StoredReleases) -> None:
        self._stored = stored
        self.metadata: set[tuple[str, int]] = set()
        self.targets: set[str] = set()
        self.files: set[str] = set()

    def add_timestamp(self, version: int) -> None:
        """Everything that a timestamp names, directly or not."""
        from tuf.api.metadata import Metadata  # workers import the store, and are installed without tuf

        content = self._add("timestamp", version)
        if content is None:
            return
        timestamp: Metadata[Timestamp] = Metadata.from_bytes(content)
        snapshot_content = self._add("snapshot", timestamp.signed.snapshot_meta.version)
        if snapshot_content is None:
            return
        snapshot: Metadata[Snapshot] = Metadata.from_bytes(snapshot_content)
        for name, meta in snapshot.signed.meta.items():
            role = self._add(name.removesuffix(".json"), meta.version)
            if role is not None:
                self._add_targets(Metadata.from_bytes(role))

    def add_document(self, document: ChannelDocument) -> None:
        """The files of a document."""
        for release in (document.current, document.previous):
            for variant in () if release is None else release.variants:
                self.files |= {file.digest for file in (variant.manifest, *variant.files)}
                self.files |= {delta.patch_digest for delta in variant.deltas}

    def _add(self, role: str, version: int) -> bytes | None:
        self.metadata.add((role, version))
        return self._stored.metadata(role, version)

    def _add_targets(self, role: "Metadata[Targets]") -> None:
        for path, target in role.signed.targets.items():
            place = named_target(target)
            self.targets.add(place)
            content = self._stored.target(place) if path.endswith(".json") else None
            if content is not None:
                self.add_document(ChannelDocument.model_validate_json(content))


class ReleasePruning(Repository):
    """Removes what no device needs any more.

    Kept are all roots, the current publication, those of the last days, and the files of the documents that rollouts
    follow. A device that polls within these days can finish what it began. Files that no publication names, complete or
    not, stay for the same time after they were last declared or sent.
    """

    def prune(self, keep_days: float) -> PrunedReleases:
        """Prune every tenant. Raises StoreUnavailable.

        ``keep_days`` is how long a publication stays after the next one.
        """
        before = (datetime.now(UTC) - timedelta(days=keep_days)).isoformat()
        published, declared = select(ReleasePublicationTable.tenant), select(ReleaseFileTable.tenant)
        with self._database.reading() as connection:
            tenants = connection.execute(published.union(declared)).scalars().all()
        reports = [self._prune(tenant, before) for tenant in tenants]
        return PrunedReleases(
            metadata=sum(each.metadata for each in reports),
            targets=sum(each.targets for each in reports),
            files=sum(each.files for each in reports),
        )

    @retried
    def _prune(self, tenant: str, before: str) -> PrunedReleases:
        with self._database.writing() as connection:
            self._database.lock_releases(connection)
            kept = _kept(connection, tenant, before)
            metadata, target, file = ReleaseMetadataTable, ReleaseTargetTable, ReleaseFileTable
            versions = [
                (role, version)
                for role, version in connection.execute(
                    select(metadata.role, metadata.version).where(metadata.tenant == tenant, metadata.role != "root")
                )
                if (role, version) not in kept.metadata
            ]
            paths = set(connection.execute(select(target.path).where(target.tenant == tenant)).scalars())
            unchanged = select(file.digest).where(file.tenant == tenant, file.changed_at < before)
            digests = set(connection.execute(unchanged).scalars())
            for role, version in versions:
                of_version = and_(metadata.role == role, metadata.version == version)
                connection.execute(delete(metadata).where(metadata.tenant == tenant, of_version))
            _delete(connection, target, target.tenant == tenant, target.path, paths - kept.targets)
            unused = digests - kept.files
            for table in (ReleaseFilePieceTable, ReleaseFileTable):
                _delete(connection, table, table.tenant == tenant, table.digest, unused)
            return PrunedReleases(metadata=len(versions), targets=len(paths - kept.targets), files=len(unused))


def _kept(connection: Connection, tenant: str, before: str) -> _Kept:
    publication = ReleasePublicationTable
    stored = StoredReleases(connection, tenant)
    kept = _Kept(stored)
    rows = connection.execute(
        select(publication.timestamp_version, publication.at)
        .where(publication.tenant == tenant)
        .order_by(publication.root_version.desc(), publication.timestamp_version.desc())
    ).all()
    # A publication stays for the time after the next one: until then devices were told to use it.
    for position, (version, _) in enumerate(rows):
        if position == 0 or rows[position - 1].at >= before:
            kept.add_timestamp(version)
    documents = select(ChannelDocumentTable.document).where(ChannelDocumentTable.tenant == tenant)
    for document in connection.execute(documents).scalars():
        kept.add_document(ChannelDocument.model_validate_json(document))
    return kept


def _delete(
    connection: Connection, table: type[Any], of_tenant: ColumnElement[bool], column: Any, values: Iterable[str]
) -> None:
    remaining = sorted(values)
    for begin in range(0, len(remaining), _AT_ONCE):
        connection.execute(delete(table).where(of_tenant, column.in_(remaining[begin : begin + _AT_ONCE])))
