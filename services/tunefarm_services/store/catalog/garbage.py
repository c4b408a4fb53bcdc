"""Removal of unreferenced blobs."""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, Select, select, union_all

from tunefarm_services.store.blob_store import BlobStore, StoredBlob
from tunefarm_services.store.catalog.input_example_repository import example_references
from tunefarm_services.store.database.database import Database
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.store_error import StoreUnavailable
from tunefarm_services.store.stored import GarbageReport
from tunefarm_services.store.tables import (
    ArtifactTable,
    BundleTable,
    JobTable,
    ModelSnapshotTable,
    ReleaseFilePieceTable,
    UploadPieceTable,
    WorkloadTable,
)

_AT_ONCE: Final = 50

_REFERENCES: Final = (
    WorkloadTable.workload_id,
    ArtifactTable.library_digest,
    BundleTable.content_digest,
    JobTable.model_digest,
    ModelSnapshotTable.model_digest,
    UploadPieceTable.blob_digest,
    ReleaseFilePieceTable.blob_digest,
)


class GarbageCollector(Repository):
    """Removes the blobs that a deleted job or a killed writer left behind."""

    def collect(self, older_than_s: float = 0.0) -> GarbageReport:
        """Remove every blob that no row of any tenant references. Raises StoreUnavailable.

        ``older_than_s`` keeps the blobs stored within that many seconds, for hosts that exchange blobs before they
        write the rows. Safe beside writers, which look for a blob in the transaction of its row. Other files are kept.
        """
        before_s = time.time() - older_than_s
        blobs = [blob for blob in self._blobs.stored() if older_than_s <= 0 or blob.stored_s < before_s]
        removed = remove_unreferenced(self._database, self._blobs, blobs)
        freed_bytes = sum(blob.size_bytes for blob in removed)
        return GarbageReport(removed=len(removed), freed_bytes=freed_bytes, kept=len(blobs) - len(removed))


def remove_forgotten(database: Database, blobs: BlobStore, digests: Iterable[str]) -> None:
    """Remove the blobs of deleted rows, unless others reference them; after the commit: no row outlives its blob.

    The rows are gone already, so a blob that cannot be removed now is left to the collector.
    """
    with suppress(StoreUnavailable):
        remove_unreferenced(database, blobs, (StoredBlob(each, 0) for each in sorted(digests)))


def remove_unreferenced(database: Database, blobs: BlobStore, found: Iterable[StoredBlob]) -> list[StoredBlob]:
    """Remove those of ``found`` that no row references, a few at a time: a removal blocks all other writers."""
    remaining, removed = iter(found), list[StoredBlob]()
    while batch := list(islice(remaining, _AT_ONCE)):
        removed += _remove_batch(database, blobs, batch)
    return removed


@retried
def _remove_batch(database: Database, blobs: BlobStore, found: Sequence[StoredBlob]) -> list[StoredBlob]:
    with database.writing() as connection:
        database.lock_blobs(connection, exclusive=True)
        referenced = referenced_among(connection, [blob.blob_digest for blob in found])
        removed = [blob for blob in found if blob.blob_digest not in referenced]
        for blob in removed:
            blobs.remove(blob.blob_digest)
        return removed


def referenced_among(connection: Connection, digests: Sequence[str]) -> set[str]:
    """Those of ``digests`` that a row of any tenant references."""
    queries: list[Select[Any]] = [select(column).where(column.in_(digests)) for column in _REFERENCES]
    referenced = _strings(connection, queries)
    if all(each in referenced for each in digests):
        return referenced
    return referenced | example_references(connection).intersection(digests)


def all_references(connection: Connection) -> set[str]:
    """Every blob that a row of any tenant references."""
    queries: list[Select[Any]] = [select(column).where(column.is_not(None)) for column in _REFERENCES]
    return _strings(connection, queries) | example_references(connection)


def _strings(connection: Connection, queries: Sequence[Select[Any]]) -> set[str]:
    return {str(each) for each in connection.execute(union_all(*queries)).scalars()}
