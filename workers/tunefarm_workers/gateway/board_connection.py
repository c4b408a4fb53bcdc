"""How a board's child reaches it."""

from tunefarm_schemas.frozen import Frozen


class BoardConnection(Frozen):
    """An RPC server's address. It ends the session itself after ``session_s``, whatever a kernel does then."""

    host: str
    port: int
    key: str
    session_s: float
