"""Processors that code is compiled for, and the devices that run it."""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.target import Target

_ONE_NAME: Final[Mapping[str, str]] = MappingProxyType(
    {"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "powerpc64le"}
)
_ARM: Final = re.compile(r"(arm|thumb)(v[0-9].*)?")
_X86: Final = re.compile(r"i[3-6]86")
_X86_LEVEL: Final = re.compile(r"x86-64-v([2-4])")
_CARD: Final = re.compile(r"sm_(\d+)([af]?)")


class Processor(Frozen):
    """A processor as far as it is known: fields that are empty or 0 are unknown and exclude no code.

    ``architecture`` is a CPU's in LLVM's notation, such as ``x86_64``, or a GPU's in CUDA's, such as ``sm_90``.
    ``x86_level`` is the highest n for which it has all instructions of x86-64-vn.
    """

    architecture: str = ""
    x86_level: int = 0

    @property
    def text(self) -> str:
        """Text for users, such as ``aarch64``, ``x86-64-v3`` or ``sm_90``; empty when nothing is known."""
        return f"x86-64-v{self.x86_level}" if self.x86_level else self.architecture

    def runs_code_for(self, asked: "Processor") -> bool:
        """Whether this processor may run code compiled for ``asked``; unknown fields do not exclude it."""
        if not (self.architecture and asked.architecture):
            return True
        on_card = card_runs(asked.architecture, self.architecture)
        if on_card is not None:
            return on_card
        if asked.architecture != self.architecture:
            return False
        return not self.x86_level or asked.x86_level <= self.x86_level


def processor_for(target: Target) -> Processor:
    """The least processor that runs a target's code, derived from the target's attributes."""
    attributes: dict[str, object] = json.loads(target.canonical)
    if target.kind == "cuda":
        card = str(attributes.get("arch", ""))
        return Processor(architecture=card if _CARD.fullmatch(card) else "")
    architecture = architecture_named(str(attributes.get("mtriple", "")).partition("-")[0])
    level = _X86_LEVEL.fullmatch(str(attributes.get("mcpu", "")))
    is_x86 = architecture == "x86_64"
    return Processor(architecture=architecture, x86_level=int(level[1]) if is_x86 and level is not None else 0)


def architecture_named(name: str) -> str:
    """The canonical name of an architecture that operating systems and triples call by several names."""
    plain = name.strip().lower()
    if _ARM.fullmatch(plain):
        return "arm"
    if _X86.fullmatch(plain):
        return "i386"
    return _ONE_NAME.get(plain, plain)


def card_runs(asked: str, present: str) -> bool | None:
    """Whether a GPU runs code for ``asked``, both in CUDA's notation; None if one is not understood.

    Code for one architecture runs on later ones of the same generation: sm_80 on sm_86, but not on sm_90.
    """
    wanted, there = _CARD.fullmatch(asked), _CARD.fullmatch(present)
    if wanted is None or there is None:
        return None
    number, number_there = int(wanted[1]), int(there[1])
    is_bound_to_one = bool(wanted[2])
    if number // 10 != number_there // 10 or number > number_there:
        return False
    return not is_bound_to_one or number == number_there
