"""The blob store behind the port of a worker process."""

from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.store_error import BlobDamaged, BlobMissing, StoreUnavailable
from tunefarm_workers.broker.blobs import BlobsUnavailable


class WorkerBlobs:
    """Translates the store's errors into the worker's."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def get(self, blob_digest: str) -> bytes | None:
        """The content; None if it is missing or does not match its digest. Raises BlobsUnavailable."""
        try:
            return self._blobs.get(blob_digest)
        except (BlobMissing, BlobDamaged):
            return None
        except StoreUnavailable as error:
            raise BlobsUnavailable(str(error)) from error

    def put(self, content: bytes) -> str:
        """Store content and return its digest. Raises BlobsUnavailable."""
        try:
            return self._blobs.put(content)
        except StoreUnavailable as error:
            raise BlobsUnavailable(str(error)) from error
