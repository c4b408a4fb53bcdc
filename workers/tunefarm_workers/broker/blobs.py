"""Content by its digest, as a worker reads and writes it."""

from typing import Protocol


class BlobsUnavailable(Exception):
    """Raised when the blob store does not answer. The message tells why and what to check."""


class Blobs(Protocol):
    """The tuner's blob store, seen from here. May be used from several threads."""

    def get(self, blob_digest: str) -> bytes | None:
        """The content, which has that SHA-256; None when it is not there. Raises BlobsUnavailable."""

    def put(self, content: bytes) -> str:
        """Store ``content`` and return its digest. Raises BlobsUnavailable."""
