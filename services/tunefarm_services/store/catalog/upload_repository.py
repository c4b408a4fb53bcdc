"""Uploads: content that arrives in pieces."""

import secrets
from typing import Final

from sqlalchemy import Connection, Select, bindparam, delete, insert, select, update

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.frozen import digest as digest_of
from tunefarm_schemas.upload import Upload
from tunefarm_services.store.blob_store import StoredBlob
from tunefarm_services.store.catalog.garbage import remove_unreferenced
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.store_error import NotFound, UploadIncomplete, WrongOffset
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


class UploadRepository(Repository):
    """Uploads. Each piece is a separate blob until the upload is deleted."""

    @retried
    def create(self, tenant: str, size_bytes: int, digest: str | None = None) -> Upload:
        """Begin an upload of ``size_bytes``; ``digest`` is the expected SHA-256 of the whole, if known."""
        upload = Upload(
            upload_id=secrets.token_hex(16),
            tenant=tenant,
            size_bytes=size_bytes,
            received_bytes=0,
            digest=digest,
            created_at=utc_now(),
        )
        with self._database.writing() as connection:
            connection.execute(insert(UploadTable), upload.model_dump())
        return upload

    @retried
    def append(self, tenant: str, upload_id: str, offset: int, data: bytes, least_piece_bytes: int = 0) -> Upload:
        """Append the piece at byte ``offset``. An empty piece changes nothing.

        Each piece costs a row and a blob, so all but the last must have ``least_piece_bytes`` or more. Raises NotFound,
        WrongOffset with the expected offset, and BadInput for a piece that is too small or exceeds the announced size.
        """
        with self._database.writing() as connection:
            upload = _upload_of(connection, tenant, upload_id, _BY_ID.with_for_update())
            if offset != upload.received_bytes:
                raise WrongOffset(upload_id, offset, upload.received_bytes)
            received_bytes = offset + len(data)
            if received_bytes > upload.size_bytes:
                problem = f"{received_bytes} bytes exceed the announced {upload.size_bytes}."
                raise BadInput("data", problem, "Begin an upload of the right size.")
            if 0 < len(data) < least_piece_bytes and received_bytes < upload.size_bytes:
                problem = (
                    f"A piece of {len(data)} bytes is too small: only the last may have fewer than {least_piece_bytes}."
                )
                raise BadInput("data", problem, f"Send {least_piece_bytes} bytes or more at once.")
            if data:
                self._database.lock_blobs(connection, exclusive=False)
                piece = {"offset_bytes": offset, "blob_digest": self._blobs.put(data)}
                key = {"tenant": tenant, "upload_id": upload_id}
                connection.execute(insert(UploadPieceTable), key | piece)
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
        pieces = self._delete_rows(tenant, upload_id)
        # After the commit: a row must never outlive its blob.
        remove_unreferenced(self._database, self._blobs, (StoredBlob(piece, 0) for piece in sorted(pieces)))

    @retried
    def _delete_rows(self, tenant: str, upload_id: str) -> set[str]:
        with self._database.writing() as connection:
            _upload_of(connection, tenant, upload_id, _BY_ID.with_for_update())
            pieces = set(connection.execute(_PIECES, {"tenant": tenant, "upload_id": upload_id}).scalars())
            connection.execute(_DELETE, {"of_tenant": tenant, "of_upload": upload_id})
            return pieces


def _upload_of(connection: Connection, tenant: str, upload_id: str, query: Select[*tuple[UploadTable]]) -> Upload:
    row = connection.execute(query, {"tenant": tenant, "upload_id": upload_id}).one_or_none()
    if row is None:
        raise NotFound("upload", upload_id)
    return _upload(row)


def _upload(row: AnyRow) -> Upload:
    return Upload.model_validate({name: getattr(row, name) for name in Upload.model_fields})
