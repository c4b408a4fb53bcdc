"""The blob store as a worker sees it: content by its digest."""

from typing import Protocol


class BlobsUnavailable(Exception):
    """Raised when the blob store does not answer. The message states the reason and what to check."""


class Blobs(Protocol):
    """The tuner's blob store. Thread-safe."""

    def get(self, blob_digest: str) -> bytes | None:
        """Return the content with that SHA-256, or None. Raises BlobsUnavailable."""

    def put(self, content: bytes) -> str:
        """Store ``content`` and return its digest. Raises BlobsUnavailable."""
