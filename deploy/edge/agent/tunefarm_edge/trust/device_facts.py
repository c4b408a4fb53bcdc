"""What this device is: its processor as the operating system shows it, its space, its agent."""

import ctypes
import os
import platform
import shutil
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, cast

from tunefarm_edge.refusal import Refused
from tunefarm_schemas.edge.device import EdgeFacts
from tunefarm_schemas.edge.release import RUNTIME_ABI, Architecture, Release, ReleaseVariant

_CPUINFO: Final = Path("/proc/cpuinfo")
_ARCHITECTURES: Final[Mapping[str, str]] = {
    "x86_64": "x86_64",
    "aarch64": "aarch64",
    "armv7l": "armv7",
    "armv8l": "armv7",
    "riscv64": "riscv64",
}
_AT_HWCAP: Final = 16
_AT_HWCAP2: Final = 26
# Bits of AT_HWCAP and AT_HWCAP2 in order, by their names in /proc/cpuinfo: arch/arm64/include/uapi/asm/hwcap.h.
_AARCH64_HWCAP: Final = """
    fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc
    dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg
"""
_AARCH64_HWCAP2: Final = """
    dcpodp sve2 sveaes svepmull svebitperm svesha3 svesm4 flagm2 frint svei8mm svef32mm svef64mm svebf16 i8mm bf16 dgh
    rng bti mte ecv afp rpres mte3 sme smei16i64 smef64f64 smei8i32 smef16f32 smeb16f32 smef32f32 smefa64 wfxt ebf16
"""


def architecture() -> str:
    """The processor's architecture, as variants name it; the system's own name if variants have none for it."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def cpu_features() -> frozenset[str]:
    """Instructions that every processor of the device has and the operating system permits, by the names it gives them.

    On aarch64 from the auxiliary vector, which describes this process, under an emulator too; elsewhere from
    /proc/cpuinfo.
    """
    if architecture() == "aarch64":
        return frozenset((*_named(_AT_HWCAP, _AARCH64_HWCAP), *_named(_AT_HWCAP2, _AARCH64_HWCAP2)))
    try:
        return _features_in(_CPUINFO.read_text(errors="replace"))
    except OSError:
        return frozenset()


def _named(kind: int, names: str) -> list[str]:
    library = ctypes.CDLL(None)
    library.getauxval.restype, library.getauxval.argtypes = ctypes.c_ulong, (ctypes.c_ulong,)
    bits = library.getauxval(kind)
    return [name for bit, name in enumerate(names.split()) if bits >> bit & 1]


def _features_in(text: str) -> frozenset[str]:
    """The features that all processors of a text like /proc/cpuinfo have."""
    field = {"x86_64": "flags", "armv7": "Features", "riscv64": "isa"}.get(architecture(), "Features")
    lines = [line.partition(":") for line in text.splitlines()]
    read = _extensions if field == "isa" else str.split
    found = [frozenset(read(value)) for name, _, value in lines if name.strip() == field]
    return frozenset.intersection(*found) if found else frozenset()


def _extensions(isa: str) -> list[str]:
    """The extensions in a RISC-V name such as ``rv64imafdcv_zicsr``: single letters first, then whole names."""
    first, *others = isa.strip().split("_")
    return [*first.removeprefix("rv64"), *others]


def agent_version() -> str:
    """The version of the installed agent."""
    try:
        return version("tunefarm-edge")
    except PackageNotFoundError:  # run from its sources
        return "0"


def operating_system() -> str:
    """As the system calls itself."""
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")[:200]
    except OSError:
        return ""


def device_facts(folder: Path, device_class_id: str | None) -> EdgeFacts:
    """The facts of this device. ``folder`` is where releases go."""
    return EdgeFacts(
        architecture=cast("Architecture", architecture()),
        cpu_features=tuple(sorted(cpu_features())),
        device_class_id=device_class_id,
        agent_version=agent_version(),
        runtime_abi=RUNTIME_ABI,
        free_bytes=shutil.disk_usage(folder).free,
        operating_system=operating_system(),
    )


def variant_for(release: Release, facts: EdgeFacts) -> ReleaseVariant:
    """The best variant of a release that this device can run: its own class, then most features, then the order given.

    Raises:
        Refused: there is none. A variant with instructions that the device lacks is never chosen.
    """
    features = frozenset(facts.cpu_features)
    able = [
        each
        for each in release.variants
        if each.architecture == facts.architecture
        and each.runtime_abi == facts.runtime_abi
        and features.issuperset(each.cpu_features)
        and each.device_class_id in (None, facts.device_class_id)
    ]
    if not able:
        offered = "; ".join(f"{each.architecture} {','.join(each.cpu_features) or '-'}" for each in release.variants)
        problem = f"no variant of {release.name} runs on {facts.architecture} with ABI {facts.runtime_abi} ({offered})."
        raise Refused("wrong_target", problem[:800], "Publish a variant for this device.")
    return max(able, key=lambda each: (each.device_class_id is not None, len(each.cpu_features)))


def require_libc(wanted: str | None) -> None:
    """Require the C library that a bundle was linked for: ``glibc 2.17`` or ``musl``; None or empty for none.

    Raises:
        Refused: this system has another one, or an older one.
    """
    if not wanted:
        return
    name, _, least = wanted.partition(" ")
    here = _libc()
    has_name, _, has = here.partition(" ")
    if name != has_name or _numbers(has) < _numbers(least):
        problem = f"the bundle needs {wanted}, and this system has {here}."
        raise Refused("wrong_target", problem, "Publish a variant for this device.")


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "musl"
    except (ValueError, OSError):
        return "musl"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
