"""The service's questions to confined children."""

from typing import Final

import structlog

from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_sandbox.fork_server.question import Answer, Fixes, ask
from tunefarm_schemas.frozen import Frozen

log = structlog.get_logger()

FIXES: Final = Fixes(
    too_large="Send fewer modules in one request.",
    ended="Send what tvm.ir.save_json writes for a module of TIR functions, unchanged.",
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
    """Ask as ``ask`` does; what a child printed before its end goes to the log and not to the caller."""
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
