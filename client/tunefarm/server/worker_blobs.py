"""The tuner's blob store, as a worker process uses it."""

from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.store_error import BlobDamaged, BlobMissing, StoreUnavailable
from tunefarm_workers.broker.blobs import BlobsUnavailable


class WorkerBlobs:
    """Puts the store's errors into the worker's words."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def get(self, blob_digest: str) -> bytes | None:
        """The content; None when it is not there, or not what its digest says. Raises BlobsUnavailable."""
        try:
            return self._blobs.get(blob_digest)
        except (BlobMissing, BlobDamaged):
            return None
        except StoreUnavailable as error:
            raise BlobsUnavailable(str(error)) from error

    def put(self, content: bytes) -> str:
        """Store it and return its digest. Raises BlobsUnavailable."""
        try:
            return self._blobs.put(content)
        except StoreUnavailable as error:
            raise BlobsUnavailable(str(error)) from error
