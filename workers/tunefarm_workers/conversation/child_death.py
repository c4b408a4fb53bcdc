"""Derives a candidate's failure from the exit of its child."""

import signal

from tunefarm_sandbox.fork_server.child import Exit
from tunefarm_schemas.failure import FailureReason, TrialFailure

_MEMORY_SIGNS = ("bad_alloc", "out of memory", "MemoryError", "Cannot allocate memory", "mmap failed")
_TAIL_CHARACTERS = 2000


def was_killed(death: Exit | None) -> bool:
    """Whether the child was killed from outside: by an operator, or by the kernel when memory was short."""
    return death is not None and death.kind == "signaled" and death.code == signal.SIGKILL


def failure_of_death(death: Exit | None, while_it_was: str, output: str) -> TrialFailure:
    """Return the failure of a child that ended without reporting one. ``output`` is what it wrote before."""
    reason = FailureReason.CRASH
    if any(sign in output for sign in _MEMORY_SIGNS):
        reason = FailureReason.OUT_OF_MEMORY
    elif death is not None and death.kind == "signaled" and death.code == signal.SIGXCPU:
        building = while_it_was.startswith("building")
        reason = FailureReason.BUILD_TIMEOUT if building else FailureReason.RUN_TIMEOUT
    message = f"The child {_how(death)} while it was {while_it_was}."
    tail = output[-_TAIL_CHARACTERS:].strip()
    return TrialFailure(reason=reason, message=f"{message} It wrote: {tail}" if tail else message)


def _how(death: Exit | None) -> str:
    return "closed its channel" if death is None else f"was {death.described()}".replace("was exited", "exited")
