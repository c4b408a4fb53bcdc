"""What every repository stands on."""

from typing import Any, Final, TypeAlias

from sqlalchemy import Row

from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.database.database import Database

AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A row whose columns are taken by name."""
PAST_ALL_DIGITS: Final = "g"
"""Ids of jobs and records are hexadecimal: this stands behind all that may follow the beginning of one."""


class Repository:
    """What the store keeps of one noun, over the database and the blob store that all repositories share."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs
