"""Uploads: content that arrives in pieces."""

import secrets
from typing import Final, NamedTuple

from sqlalchemy import Connection, Select, bindparam, delete, func, insert, select, update

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.frozen import digest as digest_of
from tunefarm_schemas.upload import Upload
from tunefarm_services.store.catalog.garbage import remove_forgotten
from tunefarm_services.store.catalog.piece import Piece
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.store_error import NotFound, QuotaExceeded, UploadIncomplete
from tunefarm_services.store.tables import UploadPieceTable, UploadTable

_OF_TENANT: Final = select(UploadTable).where(UploadTable.tenant == bindparam("tenant"))
_BY_ID: Final = _OF_TENANT.where(UploadTable.upload_id == bindparam("upload_id"))
_PIECES: Final = (
    select(UploadPieceTable.blob_digest)
    .where(UploadPieceTable.tenant == bindparam("tenant"), UploadPieceTable.upload_id == bindparam("upload_id"))
    .order_by(UploadPieceTable.offset_bytes)
)
_ADVANCE: Final = (
    update(UploadTable)
    .where(UploadTable.tenant == bindparam("of_tenant"), UploadTable.upload_id == bindparam("of_upload"))
    .values(received_bytes=bindparam("now_received"))
)
_DELETE: Final = delete(UploadTable).where(
    UploadTable.tenant == bindparam("of_tenant"), UploadTable.upload_id == bindparam("of_upload")
)


class UploadQuota(NamedTuple):
    """What the uploads of a tenant may be together."""

    uploads: int
    size_bytes: int


class UploadRepository(Repository):
    """Uploads. Each piece is a separate blob until the upload is deleted."""

    @retried
    def create(
        self, tenant: str, size_bytes: int, digest: str | None = None, quota: UploadQuota | None = None
    ) -> Upload:
        """Begin an upload of ``size_bytes``; ``digest`` is the expected SHA-256 of the whole, if known.

        Raises QuotaExceeded.
        """
        upload = Upload(
            upload_id=secrets.token_hex(16),
            tenant=tenant,
            size_bytes=size_bytes,
            received_bytes=0,
            digest=digest,
            created_at=utc_now(),
        )
        with self._database.writing() as connection:
            if quota is not None:
                self._database.lock_tenant(connection, tenant)
                _require_room(connection, upload, quota)
            connection.execute(insert(UploadTable), upload.model_dump())
        return upload

    @retried
    def append(self, tenant: str, upload_id: str, offset: int, data: bytes, least_piece_bytes: int = 0) -> Upload:
        """Append the piece at byte ``offset``. An empty piece changes nothing.

        Each piece costs a row and a blob, so all but the last must have ``least_piece_bytes`` or more. Raises NotFound,
        WrongOffset with the expected offset, and BadInput for a piece that is too small or exceeds the announced size.
        """
        piece = Piece(offset, data, least_piece_bytes)
        _received_bytes(self.get(tenant, upload_id), piece)
        blob = self._put(data) if data else {}
        with self._database.writing() as connection:
            upload = _upload_of(connection, tenant, upload_id, _BY_ID.with_for_update())
            received_bytes = _received_bytes(upload, piece)
            if data:
                self._keep(connection, blob)
                row = {"tenant": tenant, "upload_id": upload_id, "offset_bytes": offset, "blob_digest": digest_of(data)}
                connection.execute(insert(UploadPieceTable), row)
                of_upload = {"of_tenant": tenant, "of_upload": upload_id}
                connection.execute(_ADVANCE, of_upload | {"now_received": received_bytes})
            return upload.model_copy(update={"received_bytes": received_bytes})

    def get(self, tenant: str, upload_id: str) -> Upload:
        """One upload. Raises NotFound."""
        with self._database.reading() as connection:
            return _upload_of(connection, tenant, upload_id, _BY_ID)

    def of_tenant(self, tenant: str) -> list[Upload]:
        """Every upload of a tenant, oldest first."""
        with self._database.reading() as connection:
            rows = connection.execute(_OF_TENANT.order_by(UploadTable.created_at), {"tenant": tenant})
            return [_upload(row) for row in rows]

    def content(self, tenant: str, upload_id: str) -> bytes:
        """The content of a complete upload.

        Raises NotFound, UploadIncomplete, BadInput if the digest differs, BlobMissing, BlobDamaged.
        """
        with self._database.reading() as connection:
            upload = _upload_of(connection, tenant, upload_id, _BY_ID)
            pieces = connection.execute(_PIECES, {"tenant": tenant, "upload_id": upload_id}).scalars().all()
        if not upload.is_complete:
            raise UploadIncomplete(upload_id, upload.received_bytes, upload.size_bytes)
        content = b"".join(self._blobs.get(piece) for piece in pieces)
        if upload.digest is not None and digest_of(content) != upload.digest:
            raise BadInput("digest", "The uploaded bytes have another digest.", "Upload the content again.")
        return content

    def delete(self, tenant: str, upload_id: str) -> None:
        """Remove an upload and the pieces that nothing else references. Raises NotFound."""
        remove_forgotten(self._database, self._blobs, self._delete_rows(tenant, upload_id))

    @retried
    def _delete_rows(self, tenant: str, upload_id: str) -> set[str]:
        with self._database.writing() as connection:
            _upload_of(connection, tenant, upload_id, _BY_ID.with_for_update())
            pieces = set(connection.execute(_PIECES, {"tenant": tenant, "upload_id": upload_id}).scalars())
            connection.execute(_DELETE, {"of_tenant": tenant, "of_upload": upload_id})
            return pieces


def _require_room(connection: Connection, upload: Upload, quota: UploadQuota) -> None:
    query = select(func.count(), func.coalesce(func.sum(UploadTable.size_bytes), 0))
    uploads, declared_bytes = connection.execute(query.where(UploadTable.tenant == upload.tenant)).one()
    if uploads >= quota.uploads:
        raise QuotaExceeded(f"The tenant has {uploads} uploads. Delete one that is no longer needed.")
    if declared_bytes + upload.size_bytes > quota.size_bytes:
        have = f"The tenant's uploads have {declared_bytes} bytes together."
        raise QuotaExceeded(f"{have} Delete one that is no longer needed.")


def _received_bytes(upload: Upload, piece: Piece) -> int:
    """The bytes that have arrived with this piece. Raises WrongOffset, BadInput."""
    fix = "Begin an upload of the right size."
    before_bytes, size_bytes = upload.received_bytes, upload.size_bytes
    return piece.received_bytes(upload.upload_id, before_bytes, size_bytes, stated="announced", fix=fix)


def _upload_of(connection: Connection, tenant: str, upload_id: str, query: Select[*tuple[UploadTable]]) -> Upload:
    row = connection.execute(query, {"tenant": tenant, "upload_id": upload_id}).one_or_none()
    if row is None:
        raise NotFound("upload", upload_id)
    return _upload(row)


def _upload(row: AnyRow) -> Upload:
    return Upload.model_validate({name: getattr(row, name) for name in Upload.model_fields})
