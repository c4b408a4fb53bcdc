"""Uploads in pieces."""

from pydantic import Field

from tunefarm_schemas.frozen import Frozen


class Upload(Frozen):
    """Content of a declared size that may arrive in several requests and be resumed after each.

    ``received_bytes`` is the offset of the next piece. ``digest`` is the SHA-256 that the sender declared.
    """

    upload_id: str
    tenant: str
    size_bytes: int = Field(gt=0)
    received_bytes: int = Field(ge=0)
    digest: str | None
    created_at: str
    """RFC 3339, UTC."""

    @property
    def is_complete(self) -> bool:
        """Whether every byte has arrived."""
        return self.received_bytes == self.size_bytes
