"""The base of all repositories."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection, Row

from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.database.database import Database

AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A row whose columns are read by name."""
AFTER_HEX_DIGITS: Final = "g"
"""Sorts after every continuation of an id prefix: ids of jobs and records are hexadecimal."""


class Repository:
    """Stored data of one noun, over the database and the blob store that all repositories share."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    def _put(self, *contents: bytes) -> dict[str, bytes]:
        """Store contents and return them by digest, for ``_keep``.

        Before the transaction: while one waits for the blob store, it would block all that remove blobs, and after them
        all that add some.
        """
        return {self._blobs.put(content): content for content in contents}

    def _keep(self, connection: Connection, contents: Mapping[str, bytes]) -> None:
        """Keep blobs until the transaction has stored their rows; those removed since ``_put`` are put again."""
        self._database.lock_blobs(connection, exclusive=False)
        for blob_digest, content in contents.items():
            if not self._blobs.has(blob_digest):
                self._blobs.put(content)
