"""The shortest time in which any processor could do what a function certainly has to do."""

import json
from typing import Final

from pydantic import Field

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.frozen import Frozen

CALL_S: Final = 1.5e-9
"""A call that does nothing, through TVM's interface and on TVM's clock: 4.3 ns were measured at 4.5 GHz, some twenty
cycles. This is ten of them on the fastest processor."""
_CYCLES_PER_S: Final = 7e9
_STORED_BYTES_PER_CYCLE: Final = 128
"""Two full vectors of 512 bits. Processors of today store one in a cycle, or two of half that length."""
_X86_MULTIPLY_ADDS: Final = {64: 32, 32: 64}
"""In one cycle of one core: twice what two units of 512 bits do."""
_MULTIPLY_ADDS: Final = {64: 512, 32: 2048, 16: 8192, 8: 16384}
"""The same with matrix units, which take floats of 16 bits on x86 and all of them elsewhere; twice the largest."""
_CARD_STORED_BYTES_PER_S: Final = 1e15
_CARD_MULTIPLY_ADDS_PER_S: Final = 1e18
_PROCESSORS: Final = ("llvm", "c")


class LeastWork(Frozen):
    """What every correct schedule of a function does at least.

    ``written_bytes`` counts the bytes of outputs that are certainly written, each once. ``multiply_adds`` are additions
    of floats to sums in the function's outputs, none of which a compiler may leave out or share between outputs;
    ``multiply_add_bits`` is the width of the narrowest factor.
    """

    written_bytes: int = Field(default=0, ge=0)
    multiply_adds: int = Field(default=0, ge=0)
    multiply_add_bits: int = Field(default=32, ge=1)


def least_latency_s(work: LeastWork, target: str, num_cores: int) -> float:
    """Seconds below which no device for ``target`` (canonical JSON) finishes a call that does ``work``.

    It has to hold for every processor, so it is far below what a good kernel takes: peak figures are twice those of the
    largest core that is known, at a clock that none reaches, and reading inputs costs nothing. A time below it was not
    measured but made up, or its clock is wrong.
    """
    attributes = json.loads(target)
    if attributes.get("kind") not in _PROCESSORS:
        stored_s = work.written_bytes / _CARD_STORED_BYTES_PER_S
        return max(CALL_S, stored_s, work.multiply_adds / _CARD_MULTIPLY_ADDS_PER_S)
    cycles_per_s = _CYCLES_PER_S * max(num_cores, 1)
    stored_s = work.written_bytes / (_STORED_BYTES_PER_CYCLE * cycles_per_s)
    return max(CALL_S, stored_s, work.multiply_adds / (_in_a_cycle(work, attributes.get("mtriple", "")) * cycles_per_s))


def disbelief(latency_s: float, least_s: float) -> TrialFailure | None:
    """Why a time is not believed; None where it may be true."""
    if latency_s >= least_s:
        return None
    message = (
        f"Its time is not believed: {latency_s * 1e9:.3g} ns a call, where what the function writes and computes takes "
        f"any such device {least_s * 1e9:.3g} ns at least."
    )
    return TrialFailure(reason=FailureReason.WRONG_RESULT, message=message)


def _in_a_cycle(work: LeastWork, triple: str) -> int:
    """Multiply-adds that one core does in a cycle at most."""
    is_x86 = str(triple).startswith(("x86_64", "i386", "i686"))
    rates = _MULTIPLY_ADDS | (_X86_MULTIPLY_ADDS if is_x86 else {})
    width = max((bits for bits in rates if bits <= work.multiply_add_bits), default=min(rates))
    return rates[width]
