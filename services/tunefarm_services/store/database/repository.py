"""The base of all repositories."""

from typing import Any, Final, TypeAlias

from sqlalchemy import Row

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
