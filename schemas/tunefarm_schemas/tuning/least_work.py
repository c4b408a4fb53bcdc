"""Lower bound of a function's latency on any processor."""

import json
from typing import Final

from pydantic import Field

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.frozen import Frozen

CALL_S: Final = 1.5e-9
"""An empty call through TVM's interface, by TVM's clock: 4.3 ns were measured at 4.5 GHz, about twenty cycles. This is
ten cycles on the fastest processor."""
_CYCLES_PER_S: Final = 7e9
_STORED_BYTES_PER_CYCLE: Final = 128
"""Two full vectors of 512 bits. Current processors store one per cycle, or two of half that length."""
_X86_MULTIPLY_ADDS: Final = {64: 32, 32: 64}
"""Per cycle and core: twice the throughput of two 512-bit units."""
_MULTIPLY_ADDS: Final = {64: 512, 32: 2048, 16: 8192, 8: 16384}
"""The same with matrix units, for 16-bit floats on x86 and all floats elsewhere; twice the largest."""
_CARD_STORED_BYTES_PER_S: Final = 1e15
_CARD_MULTIPLY_ADDS_PER_S: Final = 1e18
_PROCESSORS: Final = ("llvm", "c")


class LeastWork(Frozen):
    """The minimum work of every correct schedule of a function.

    ``written_bytes`` counts output bytes that are certainly written, each once. ``multiply_adds`` are float additions
    to sums in the function's outputs, none of which a compiler may omit or share between outputs;
    ``multiply_add_bits`` is the width of the narrowest factor.
    """

    written_bytes: int = Field(default=0, ge=0)
    multiply_adds: int = Field(default=0, ge=0)
    multiply_add_bits: int = Field(default=32, ge=1)


def least_latency_s(work: LeastWork, target: str, num_cores: int) -> float:
    """Seconds below which no device for ``target`` (canonical JSON) can finish a call that does ``work``.

    It must hold for every processor, so it is far below the latency of a good kernel: it assumes twice the peak
    throughput of the largest known core, at a clock that none reaches, and free reads of inputs. A time below it is
    forged, or its clock is wrong.
    """
    attributes = json.loads(target)
    if attributes.get("kind") not in _PROCESSORS:
        stored_s = work.written_bytes / _CARD_STORED_BYTES_PER_S
        return max(CALL_S, stored_s, work.multiply_adds / _CARD_MULTIPLY_ADDS_PER_S)
    cycles_per_s = _CYCLES_PER_S * max(num_cores, 1)
    stored_s = work.written_bytes / (_STORED_BYTES_PER_CYCLE * cycles_per_s)
    return max(CALL_S, stored_s, work.multiply_adds / (_in_a_cycle(work, attributes.get("mtriple", "")) * cycles_per_s))


def disbelief(latency_s: float, least_s: float) -> TrialFailure | None:
    """Why a time is rejected as implausible; None if it is plausible."""
    if latency_s >= least_s:
        return None
    message = (
        f"Its time is not believed: {latency_s * 1e9:.3g} ns a call, where what the function writes and computes takes "
        f"any such device {least_s * 1e9:.3g} ns at least."
    )
    return TrialFailure(reason=FailureReason.WRONG_RESULT, message=message)


def _in_a_cycle(work: LeastWork, triple: str) -> int:
    """Maximum number of multiply-adds of one core per cycle."""
    is_x86 = str(triple).startswith(("x86_64", "i386", "i686"))
    rates = _MULTIPLY_ADDS | (_X86_MULTIPLY_ADDS if is_x86 else {})
    width = max((bits for bits in rates if bits <= work.multiply_add_bits), default=min(rates))
    return rates[width]
