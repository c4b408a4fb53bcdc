"""Release repositories: one of each tenant, changed by whole publications only."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Update, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.edge.release import ChannelDocument
from tunefarm_schemas.frozen import digest as digest_of
from tunefarm_services.store.catalog.piece import Piece
from tunefarm_services.store.database.insert_once import insert_into, insert_once
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.store_error import NotFound, QuotaExceeded, StoreConflict
from tunefarm_services.store.tables import (
    ReleaseFilePieceTable,
    ReleaseFileTable,
    ReleaseMetadataTable,
    ReleasePublicationTable,
    ReleaseTargetTable,
)

if TYPE_CHECKING:
    from tuf.api.metadata import TargetFile

_FILE: Final = ReleaseFileTable
_PIECE: Final = ReleaseFilePieceTable


@dataclass(frozen=True, slots=True)
class StoredReleaseFile:
    """A file of bundles, complete or not."""

    digest: str
    size_bytes: int
    received_bytes: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class FilePiece:
    """A piece of a file, which is a blob."""

    offset_bytes: int
    size_bytes: int
    blob_digest: str


@dataclass(frozen=True, slots=True)
class AcceptedPublication:
    """What a publication adds: metadata by role and version, targets by path, and a description for the audit.

    ``documents`` are those of the channels that it names.
    """

    metadata: Mapping[tuple[str, int], bytes]
    targets: Mapping[str, bytes]
    root_version: int
    timestamp_version: int
    changes: str
    documents: tuple[ChannelDocument, ...] = ()


class StoredReleases:
    """What a tenant has published so far, as one transaction sees it."""

    def __init__(self, connection: Connection, tenant: str) -> None:
        self._connection = connection
        self._tenant = tenant

    def metadata(self, role: str, version: int | None = None) -> bytes | None:
        """One version of a role's metadata, or the newest.

        The newest timestamp is the one that was published last under the newest root: a thief of a revoked key may have
        published a higher version.
        """
        table = ReleaseMetadataTable
        if role == "timestamp" and version is None:
            version = self._newest_timestamp()
        query = select(table.content).where(table.tenant == self._tenant, table.role == role)
        query = query.order_by(table.version.desc()) if version is None else query.where(table.version == version)
        found: bytes | None = self._connection.execute(query.limit(1)).scalar()
        return found

    def _newest_timestamp(self) -> int | None:
        table = ReleasePublicationTable
        query = select(table.timestamp_version).where(table.tenant == self._tenant)
        query = query.order_by(table.root_version.desc(), table.timestamp_version.desc()).limit(1)
        found: int | None = self._connection.execute(query).scalar()
        return found

    def target(self, path: str) -> bytes | None:
        """A target by its path below ``targets/``."""
        table = ReleaseTargetTable
        query = select(table.content).where(table.tenant == self._tenant, table.path == path)
        found: bytes | None = self._connection.execute(query).scalar()
        return found

    def size_of_file(self, file_digest: str) -> int | None:
        """The size of a complete file, in bytes."""
        query = select(_FILE.size_bytes).where(
            _FILE.tenant == self._tenant, _FILE.digest == file_digest, _FILE.completed_at.is_not(None)
        )
        found: int | None = self._connection.execute(query).scalar()
        return found


class ReleaseRepository(Repository):
    """Signed metadata, targets and files of releases."""

    @retried
    def publish(
        self,
        tenant: str,
        token_id: str,
        judge: Callable[[StoredReleases], AcceptedPublication],
        announce: Callable[[Connection, ChannelDocument], object],
    ) -> AcceptedPublication:
        """Store what ``judge`` accepts of a publication, and announce its documents, in one transaction.

        Raises whatever ``judge`` raises, and StoreConflict if another publication came first; nothing was stored.
        """
        try:
            with self._database.writing() as connection:
                self._database.lock_releases(connection)
                accepted = judge(StoredReleases(connection, tenant))
                for (role, version), content in accepted.metadata.items():
                    row = {"tenant": tenant, "role": role, "version": version, "content": content}
                    connection.execute(insert(ReleaseMetadataTable), row)
                for path, content in accepted.targets.items():
                    row = {"tenant": tenant, "path": path, "content": content}
                    connection.execute(insert_once(connection, ReleaseTargetTable), row)
                audit = {
                    "tenant": tenant,
                    "timestamp_version": accepted.timestamp_version,
                    "root_version": accepted.root_version,
                    "token_id": token_id,
                    "at": utc_now(),
                    "changes": accepted.changes,
                }
                if accepted.metadata:
                    connection.execute(insert(ReleasePublicationTable), audit)
                for document in accepted.documents:
                    announce(connection, document)
                return accepted
        except IntegrityError as error:
            raise StoreConflict("publication", tenant) from error

    def metadata(self, tenant: str, role: str, version: int | None = None) -> bytes:
        """One version of a role's metadata, or the newest. Raises NotFound."""
        with self._database.reading() as connection:
            found = StoredReleases(connection, tenant).metadata(role, version)
        if found is None:
            raise NotFound("metadata", role if version is None else f"{version}.{role}")
        return found

    def target(self, tenant: str, path: str) -> bytes:
        """A target by its path below ``targets/``. Raises NotFound."""
        with self._database.reading() as connection:
            found = StoredReleases(connection, tenant).target(path)
        if found is None:
            raise NotFound("release target", path)
        return found

    def current_target(self, tenant: str, role: str, path: str) -> bytes:
        """A target by its path without a digest, as the newest metadata of its role name it. Raises NotFound."""
        from tuf.api.metadata import Metadata, Targets  # workers import the store, and are installed without tuf

        with self._database.reading() as connection:
            stored = StoredReleases(connection, tenant)
            content = stored.metadata(role)
            named = None if content is None else Metadata[Targets].from_bytes(content).signed.targets.get(path)
            found = None if named is None else stored.target(named_target(named))
        if found is None:
            raise NotFound("release target", path)
        return found

    def declare(self, tenant: str, file_digest: str, size_bytes: int) -> StoredReleaseFile:
        """A file that is to be sent, or was. Raises as ``declare_all``."""
        return self.declare_all(tenant, [(file_digest, size_bytes)])[0]

    @retried
    def declare_all(
        self, tenant: str, sizes: Sequence[tuple[str, int]], most_bytes: int | None = None
    ) -> list[StoredReleaseFile]:
        """Files that are to be sent, or were, by digest and size; the tenant may have ``most_bytes`` of files.

        Raises BadInput if one was declared with another size, and QuotaExceeded.
        """
        now = utc_now()
        with self._database.writing() as connection:
            self._database.lock_tenant(connection, tenant)
            before_bytes = _declared_bytes(connection, tenant)
            found = [_declared(connection, tenant, digest, size_bytes, now) for digest, size_bytes in sizes]
            after_bytes = _declared_bytes(connection, tenant)
            if most_bytes is not None and before_bytes < after_bytes > most_bytes:
                have = f"With these, the tenant's files of releases have {after_bytes} of {most_bytes} bytes."
                raise QuotaExceeded(f"{have} Those that no publication needs are removed in time.")
        return found

    def file(self, tenant: str, file_digest: str) -> StoredReleaseFile:
        """What has arrived of a file. Raises NotFound."""
        with self._database.reading() as connection:
            return _file(connection, tenant, file_digest)

    def append(
        self, tenant: str, file_digest: str, offset: int, data: bytes, least_piece_bytes: int = 0
    ) -> StoredReleaseFile:
        """Append a piece; after the last one, compare the digest. An empty piece at the end repeats the comparison.

        All pieces but the last have ``least_piece_bytes`` or more. Raises NotFound, WrongOffset, and BadInput: it
        is too small or too large, or the content has another digest, and is to be sent again.
        """
        found = self._append(tenant, file_digest, offset, data, least_piece_bytes)
        if found.is_complete or found.received_bytes < found.size_bytes:
            return found
        hasher = hashlib.sha256()
        for content in self.read(tenant, file_digest, 0, found.size_bytes):
            hasher.update(content)
        if hasher.hexdigest() != file_digest:
            self._discard(tenant, file_digest)
            raise BadInput("sha256", "The content has another digest.", "Declare the file and send it again.")
        return self._complete(tenant, file_digest)

    def read(self, tenant: str, file_digest: str, begin: int, end: int) -> Iterator[bytes]:
        """The bytes of a file from ``begin`` to before ``end``, piece by piece. Raises BlobMissing, BlobDamaged."""
        for piece in self._pieces(tenant, file_digest):
            first, last = max(begin, piece.offset_bytes), min(end, piece.offset_bytes + piece.size_bytes)
            if first < last:
                content = self._blobs.get(piece.blob_digest)
                yield content[first - piece.offset_bytes : last - piece.offset_bytes]

    def _pieces(self, tenant: str, file_digest: str) -> Sequence[FilePiece]:
        query = select(_PIECE).where(_PIECE.tenant == tenant, _PIECE.digest == file_digest)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(_PIECE.offset_bytes))
            return [FilePiece(row.offset_bytes, row.size_bytes, row.blob_digest) for row in rows]

    @retried
    def _append(
        self, tenant: str, file_digest: str, offset: int, data: bytes, least_piece_bytes: int
    ) -> StoredReleaseFile:
        piece = Piece(offset, data, least_piece_bytes)
        _received_bytes(self.file(tenant, file_digest), piece)
        blob = self._put(data) if data else {}
        with self._database.writing() as connection:
            found = _file(connection, tenant, file_digest, is_locked=True)
            received_bytes = _received_bytes(found, piece)
            if data:
                self._keep(connection, blob)
                row = {"tenant": tenant, "digest": file_digest, "offset_bytes": offset, "size_bytes": len(data)}
                connection.execute(insert(_PIECE), row | {"blob_digest": digest_of(data)})
                values = {"received_bytes": received_bytes, "changed_at": utc_now()}
                connection.execute(_of_file(tenant, file_digest).values(**values))
            return _file(connection, tenant, file_digest)

    @retried
    def _complete(self, tenant: str, file_digest: str) -> StoredReleaseFile:
        with self._database.writing() as connection:
            connection.execute(_of_file(tenant, file_digest).values(completed_at=utc_now()))
            return _file(connection, tenant, file_digest)

    @retried
    def _discard(self, tenant: str, file_digest: str) -> None:
        with self._database.writing() as connection:
            for table in (_PIECE, _FILE):
                connection.execute(delete(table).where(table.tenant == tenant, table.digest == file_digest))


def target_name(path: str, content: bytes) -> str:
    """The path of a target below ``targets/``: its name begins with its digest."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{digest_of(content)}.{name}"


def named_target(target: "TargetFile") -> str:
    """The path below ``targets/`` of a target that metadata name."""
    folder, _, name = target.path.rpartition("/")
    return f"{folder}/{target.hashes['sha256']}.{name}"


def _received_bytes(file: StoredReleaseFile, piece: Piece) -> int:
    """The bytes that have arrived with this piece. Raises WrongOffset, BadInput."""
    fix = "Send the file that was declared."
    return piece.received_bytes(file.digest, file.received_bytes, file.size_bytes, stated="declared", fix=fix)


def _declared(connection: Connection, tenant: str, digest: str, size_bytes: int, now: str) -> StoredReleaseFile:
    statement = insert_into(connection, _FILE)
    renewed = {"changed_at": statement.excluded.changed_at}
    row = {"tenant": tenant, "digest": digest, "size_bytes": size_bytes, "received_bytes": 0, "changed_at": now}
    connection.execute(statement.on_conflict_do_update(index_elements=["tenant", "digest"], set_=renewed), row)
    found = _file(connection, tenant, digest)
    if found.size_bytes != size_bytes:
        problem = f"The file {digest} was declared with {found.size_bytes} bytes."
        raise BadInput("size_bytes", problem, "Send its true size.")
    return found


def _declared_bytes(connection: Connection, tenant: str) -> int:
    query = select(func.coalesce(func.sum(_FILE.size_bytes), 0)).where(_FILE.tenant == tenant)
    return int(connection.execute(query).scalar_one() or 0)


def _of_file(tenant: str, file_digest: str) -> Update:
    return update(_FILE).where(_FILE.tenant == tenant, _FILE.digest == file_digest)


def _file(connection: Connection, tenant: str, file_digest: str, *, is_locked: bool = False) -> StoredReleaseFile:
    query = select(_FILE).where(_FILE.tenant == tenant, _FILE.digest == file_digest)
    row = connection.execute(query.with_for_update() if is_locked else query).one_or_none()
    if row is None:
        raise NotFound("release file", file_digest)
    return StoredReleaseFile(row.digest, row.size_bytes, row.received_bytes, row.completed_at is not None)
