"""The fork server of a command that needs TVM, started before the command line is parsed.

Loading TVM takes longer than everything else at startup, so this module imports almost nothing. It holds the only
state that outlives parsing: the started process, until a command takes it.
"""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NoReturn

from tunefarm.startup.preloading import PRELOAD, PRELOAD_TO_SEND

if TYPE_CHECKING:
    from tunefarm_sandbox.fork_server.fork_server import ForkServer
    from tunefarm_sandbox.fork_server.server_process import ServerProcess

NEED_TVM: Final = frozenset(
    {("tune",), ("compile",), *(("records", word) for word in ("best", "show", "export", "import", "publish"))}
)
SENDS: Final = frozenset({"submit"})
"""Commands that only read a module and submit it, so that tuner and workers need not be installed."""
NEVER: Final = frozenset({"--help", "-h"})

_started: "list[ServerProcess]" = []


def begin_loading(words: Sequence[str]) -> bool:
    """Start the fork server if this command line needs it; returns whether it does."""
    if NEVER.intersection(words) or len(words) < 2:
        return False
    preload: tuple[str, ...] | None = None
    if (words[0],) in NEED_TVM or tuple(words[:2]) in NEED_TVM:
        preload = PRELOAD
    elif words[0] in SENDS:
        preload = PRELOAD_TO_SEND
    if preload is None or find_spec("tunefarm_search") is None:  # a client without extras submits TVM JSON unchanged
        return False
    from tunefarm_sandbox.fork_server.server_process import start_server_process

    _started.append(start_server_process(preload))
    return True


def take_fork_server() -> "ForkServer | None":
    """The process that ``begin_loading`` started, now owned by the caller; None if it started none."""
    from tunefarm_sandbox.fork_server.fork_server import ForkServer

    return ForkServer.of(_started.pop()) if _started else None


def end_at_once(status: int) -> NoReturn:
    """Exit without Python's teardown.

    A fork server that no command took may still load TVM: it dies with this process instead of being waited for.
    Teardown of the imported modules would take another 0.1 s.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
