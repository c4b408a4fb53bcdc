"""Requests of the service to confined children."""

from typing import Final

import structlog

from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_sandbox.fork_server.question import Answer, Fixes, ask
from tunefarm_schemas.frozen import Frozen

log = structlog.get_logger()

FIXES: Final = Fixes(
    too_large="Send fewer modules in one request.",
    ended="Send the unchanged output of tvm.ir.save_json for a module of TIR functions.",
    late="Send one function at a time.",
)


def confined_call(
    zygote: ForkServer,
    entry: str,
    question: Frozen,
    answer_type: type[Answer],
    *,
    field: str,
    limits: Limits,
    timeout_s: float,
) -> Answer:
    """Like ``ask``; logs the output of a child that died, which the caller must not see."""
    return ask(
        zygote,
        entry,
        question,
        answer_type,
        field=field,
        fixes=FIXES,
        limits=limits,
        timeout_s=timeout_s,
        described=_logged,
    )


def _logged(how: str, output: str) -> str:
    log.warning("intake child died", ended=how, output=output[-2000:])
    return f"{how}."
