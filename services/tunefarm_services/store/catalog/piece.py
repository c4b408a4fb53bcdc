"""Pieces of content that arrives in order."""

from typing import NamedTuple

from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.store.store_error import WrongOffset


class Piece(NamedTuple):
    """Bytes from ``offset`` on. All pieces but the last have ``least_bytes`` or more: each costs a row and a blob."""

    offset: int
    data: bytes
    least_bytes: int

    def received_bytes(self, content_id: str, before_bytes: int, size_bytes: int, *, stated: str, fix: str) -> int:
        """How much has arrived with this piece, of which ``before_bytes`` were there.

        Args:
            content_id: of the whole content.
            before_bytes: how much had arrived.
            size_bytes: of the whole content.
            stated: how that size became known, such as ``declared``.
            fix: what a sender of more bytes should do.

        Raises:
            WrongOffset: the piece does not follow what is there.
            BadInput: it is too small, or ends behind the content.
        """
        if self.offset != before_bytes:
            raise WrongOffset(content_id, self.offset, before_bytes)
        received_bytes = self.offset + len(self.data)
        if received_bytes > size_bytes:
            raise BadInput("data", f"{received_bytes} bytes exceed the {stated} {size_bytes}.", fix)
        if 0 < len(self.data) < self.least_bytes and received_bytes < size_bytes:
            have, least = f"A piece of {len(self.data)} bytes is too small", self.least_bytes
            problem = f"{have}: only the last may have fewer than {least}."
            raise BadInput("data", problem, f"Send {least} bytes or more at once.")
        return received_bytes
