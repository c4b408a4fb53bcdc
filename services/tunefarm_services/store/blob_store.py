"""Content-addressed blobs, in a folder or in an object store."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import LocalStore, ObjectStore, from_url

from tunefarm_sandbox.channel.private_files import make_private_folder
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_services.store.store_error import BlobDamaged, BlobMissing, StoreUnavailable

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FOLDER: Final = "sha256"


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A blob found in the store. Its content has not been read."""

    blob_digest: str
    size_bytes: int
    stored_s: float = 0.0
    """When it was last put, in seconds since the Unix epoch."""


class BlobStore:
    """Blobs named by the SHA-256 of their content, so that rows can share them and reads can verify them."""

    def __init__(self, root: Path | str) -> None:
        """Open a folder, created if missing, or an object store's URL. Raises StoreUnavailable, BadInput."""
        self._root = str(root)
        self._store = self._opened(root)

    def put(self, content: bytes) -> str:
        """Store ``content`` and return its digest. Repeating it repairs a damaged blob."""
        blob_digest = digest(content)
        try:
            obstore.put(self._store, _key(blob_digest), content)
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error
        return blob_digest

    def has(self, blob_digest: str) -> bool:
        """Whether the blob is stored; its content is not read. Raises StoreUnavailable."""
        try:
            obstore.head(self._store, _key(blob_digest))
        except (NotFoundError, FileNotFoundError):
            return False
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error
        return True

    def get(self, blob_digest: str) -> bytes:
        """Return the content of a blob. Raises BlobMissing, BlobDamaged, StoreUnavailable."""
        if _DIGEST.fullmatch(blob_digest) is None:
            raise BlobMissing(blob_digest[:100])
        try:
            content = bytes(obstore.get(self._store, _key(blob_digest)).bytes())
        except (NotFoundError, FileNotFoundError) as error:
            raise BlobMissing(blob_digest) from error
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error
        if digest(content) != blob_digest:
            raise BlobDamaged(blob_digest)
        return content

    def remove(self, blob_digest: str) -> None:
        """Remove a blob if it exists. Raises ValueError for a name that is not a digest."""
        if _DIGEST.fullmatch(blob_digest) is None:
            raise ValueError("not a digest")
        try:
            obstore.delete(self._store, _key(blob_digest))
        except (NotFoundError, FileNotFoundError):
            return
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error

    def stored(self) -> Iterator[StoredBlob]:
        """Yield every blob of the store; other files are skipped."""
        try:
            for page in obstore.list(self._store, prefix=_FOLDER):
                for entry in page:
                    name = entry["path"].rpartition("/")[2]
                    if _DIGEST.fullmatch(name) and entry["path"] == _key(name):
                        yield StoredBlob(name, entry["size"], entry["last_modified"].timestamp())
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error

    def _opened(self, root: Path | str) -> ObjectStore:
        if isinstance(root, str) and "://" in root:
            try:
                return from_url(root)
            except (BaseError, ValueError) as error:
                raise BadInput(
                    "TUNEFARM_BLOB_URL", f"It cannot be used: {error}.", "Write s3://bucket/prefix."
                ) from error
        try:
            make_private_folder(Path(root))
            return LocalStore(Path(root))
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(
            f"The blob store {self._root} cannot be used: {error}.", "Check that it is reachable and has space left."
        )


def _key(blob_digest: str) -> str:
    return f"{_FOLDER}/{blob_digest[:2]}/{blob_digest}"
