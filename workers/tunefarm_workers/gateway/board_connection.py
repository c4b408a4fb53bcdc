"""The connection of a board's child."""

from tunefarm_schemas.frozen import Frozen


class BoardConnection(Frozen):
    """An RPC server's address. The server ends the session after ``session_s``, even in the middle of a kernel."""

    host: str
    port: int
    key: str
    session_s: float
