"""Messages between a fork server and its parent."""

import struct
from typing import Final, Literal

from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_schemas.frozen import Frozen

DESCRIPTORS_OF_REQUEST: Final = 3
"""The child's end of its channel, the server's end of the status socket, the child's output. Those of the entry follow.
"""

CONFINED: Final = b"confined"
"""Second message on a status socket, from the child: nothing but its entry follows. Or it is a ``ForkRefused``."""

EXIT_STATUS: Final = struct.Struct("=iq")
"""Last message on a status socket: the wait status, and the peak memory in bytes."""

RefusalKind = Literal["entry", "resources", "confinement", "server_lost"]


class ForkRequest(Frozen):
    """Fork a child that calls ``entry``, given as "package.module:function"."""

    entry: str
    limits: Limits
    confinement: Confinement


class Forked(Frozen):
    """First message on a status socket: the child runs. Its pidfd is attached."""

    kind: Literal["forked"] = "forked"
    pid: int


class ForkRefused(Frozen):
    """First message on a status socket: there is no child."""

    kind: RefusalKind
    reason: str


class Ready(Frozen):
    """A server's first message: it now accepts requests, or ``failure`` states why it never will."""

    failure: str = ""
