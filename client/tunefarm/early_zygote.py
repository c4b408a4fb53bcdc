"""The zygote of a command that will need TVM, started before the command is parsed.

Holds the one piece of state that has to outlive parsing: a process begun here belongs to whichever command takes it.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tunefarm_sandbox.fork_server import ForkServer

NEED_TVM: Final = frozenset(
    {("tune",), ("records", "best"), ("records", "show"), ("records", "export"), ("records", "import")}
)
SENDS: Final = frozenset({"submit"})
"""Only read a module and send it on, so that neither the tuner nor the workers have to be installed."""
NEVER: Final = frozenset({"--help", "-h"})

_begun: "list[ForkServer]" = []


def begin_loading(words: Sequence[str]) -> None:
    """Start the zygote if this command line is one that needs it."""
    if NEVER.intersection(words) or len(words) < 2:
        return
    if (words[0],) in NEED_TVM or tuple(words[:2]) in NEED_TVM:
        from tunefarm.zygote import start_zygote

        _begun.append(start_zygote())
    elif words[0] in SENDS:
        from tunefarm.zygote import start_intake_zygote

        _begun.append(start_intake_zygote())


def take_zygote() -> "ForkServer | None":
    """The process that was begun, which is the caller's from now on; None when none was."""
    return _begun.pop() if _begun else None


def end_without_waiting(status: int) -> None:
    """End this process now if the zygote was never taken; do nothing when there is none.

    It still loads TVM, and dies with us instead of being awaited.
    """
    if _begun:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
