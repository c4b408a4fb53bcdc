"""The release repository of a tenant: metadata, targets, files, and who published. Contents of files are blobs."""

from sqlalchemy import BigInteger, ForeignKeyConstraint, Index, Integer, LargeBinary, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class ReleaseMetadataTable(Table):
    """One row for each version of each role."""

    __tablename__ = "release_metadata"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    role: Mapped[str] = mapped_column(Text, primary_key=True)
    version: Mapped[int] = mapped_column(Integer, primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class ReleaseTargetTable(Table):
    """One row for each target, by its path below ``targets/``, which holds its digest."""

    __tablename__ = "release_targets"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    path: Mapped[str] = mapped_column(Text, primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class ReleaseFileTable(Table):
    """One row for each file of a bundle. It is complete once its digest was compared."""

    __tablename__ = "release_files"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    digest: Mapped[str] = mapped_column(Text, primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    received_bytes: Mapped[int] = mapped_column(BigInteger)
    completed_at: Mapped[str | None] = mapped_column(Text)
    changed_at: Mapped[str | None] = mapped_column(Text)
    """When it was declared, or a piece of it came, last."""


class ReleaseFilePieceTable(Table):
    """One row for each piece of a file, by its offset."""

    __tablename__ = "release_file_pieces"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant", "digest"], ["release_files.tenant", "release_files.digest"], ondelete="CASCADE"
        ),
        Index("ix_release_file_pieces_blob", "blob_digest"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    digest: Mapped[str] = mapped_column(Text, primary_key=True)
    offset_bytes: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    blob_digest: Mapped[str] = mapped_column(Text)


class ReleasePublicationTable(Table):
    """One row for each accepted publication: which token made what current, and when."""

    __tablename__ = "release_publications"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    timestamp_version: Mapped[int] = mapped_column(Integer, primary_key=True)
    root_version: Mapped[int] = mapped_column(Integer, primary_key=True)
    token_id: Mapped[str] = mapped_column(Text)
    at: Mapped[str] = mapped_column(Text)
    changes: Mapped[str] = mapped_column(Text)
    """Words, such as ``root 2, channel-stable 5: cnn-2``."""
