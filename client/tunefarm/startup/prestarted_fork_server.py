"""The zygote of a command that will need TVM, started before the command is parsed.

Holds the one piece of state that has to outlive parsing: a process begun here belongs to whichever command takes it.
Imports next to nothing: what the process loads takes longer than everything else that a command does before its work.
"""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NoReturn

from tunefarm.startup.preloads import PRELOAD, PRELOAD_TO_SEND

if TYPE_CHECKING:
    from tunefarm_sandbox.fork_server.fork_server import ForkServer
    from tunefarm_sandbox.fork_server.server_process import ServerProcess

NEED_TVM: Final = frozenset(
    {("tune",), *(("records", word) for word in ("best", "show", "export", "import", "publish"))}
)
SENDS: Final = frozenset({"submit"})
"""Only read a module and send it on, so that neither the tuner nor the workers have to be installed."""
NEVER: Final = frozenset({"--help", "-h"})

_begun: "list[ServerProcess]" = []


def begin_loading(words: Sequence[str]) -> bool:
    """Start the zygote if this command line is one that needs it, and tell whether it is."""
    if NEVER.intersection(words) or len(words) < 2:
        return False
    preload: tuple[str, ...] | None = None
    if (words[0],) in NEED_TVM or tuple(words[:2]) in NEED_TVM:
        preload = PRELOAD
    elif words[0] in SENDS:
        preload = PRELOAD_TO_SEND
    if preload is None or find_spec("tunefarm_search") is None:  # a client without extras sends TVM JSON as it is
        return False
    from tunefarm_sandbox.fork_server.server_process import start_server_process

    _begun.append(start_server_process(preload))
    return True


def take_zygote() -> "ForkServer | None":
    """The process that was begun, which is the caller's from now on; None when none was."""
    from tunefarm_sandbox.fork_server.fork_server import ForkServer

    return ForkServer.of(_begun.pop()) if _begun else None


def end_at_once(status: int) -> NoReturn:
    """End this process now.

    A zygote that was never taken still loads TVM: it dies with us instead of being awaited. And what a command of this
    kind has imported takes a tenth of a second to take apart, which is of no use to anybody.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
