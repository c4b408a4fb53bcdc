"""Uploads and the pieces received so far. The bytes are blobs."""

from sqlalchemy import BigInteger, ForeignKeyConstraint, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class UploadTable(Table):
    """One row for each upload."""

    __tablename__ = "uploads"
    __table_args__ = (Index("ix_uploads_age", "created_at"),)

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    upload_id: Mapped[str] = mapped_column(Text, primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    received_bytes: Mapped[int] = mapped_column(BigInteger)
    digest: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[str] = mapped_column(Text)


class UploadPieceTable(Table):
    """One row for each piece of an upload, by its offset."""

    __tablename__ = "upload_pieces"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "upload_id"], ["uploads.tenant", "uploads.upload_id"], ondelete="CASCADE"),
        Index("ix_upload_pieces_blob", "blob_digest"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    upload_id: Mapped[str] = mapped_column(Text, primary_key=True)
    offset_bytes: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    blob_digest: Mapped[str] = mapped_column(Text)
