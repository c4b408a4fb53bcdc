"""Facts about this host's processor from the kernel."""

import contextlib
import os
import platform
from collections.abc import Collection
from pathlib import Path
from typing import Final

from tunefarm_schemas.farm.processor import Processor, architecture_named
from tunefarm_schemas.frozen import Frozen, digest
from tunefarm_schemas.host_cores import usable_processors
from tunefarm_workers.device.host_name import host_name

_CPU_INFO = Path("/proc/cpuinfo")
_TOPOLOGY = Path("/sys/devices/system/cpu")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_MACHINE_ID = Path("/etc/machine-id")
_CACHE_PER_GROUP = frozenset({"AuthenticAMD", "HygonGenuine"})
"""Vendors of processors whose groups of cores have a last-level cache each."""
_SUFFIXES = {"K": 1024, "M": 1024**2, "G": 1024**3}
_X86_LEVELS: Final = (
    frozenset({"cx16", "lahf_lm", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3"}),
    frozenset({"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}),
    frozenset({"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}),
)
"""Flags that x86-64-v2 and later levels add (System V ABI, section 3.1.1), as Linux names them."""


class CpuIdentity(Frozen):
    """The fields of a device class that need no measuring. Texts are empty if the kernel does not report them."""

    vendor: str
    family: str
    model: str
    stepping: str
    name: str
    isa_flags_digest: str
    caches_bytes: tuple[int, ...]
    cores: int


def cpu_identity() -> CpuIdentity:
    """Read the identity of the processor this process runs on."""
    fields = _first_processor()
    flags = fields.get("flags", fields.get("Features", ""))
    return CpuIdentity(
        vendor=fields.get("vendor_id", fields.get("CPU implementer", "")),
        family=fields.get("cpu family", fields.get("CPU architecture", "")),
        model=fields.get("model", fields.get("CPU part", "")),
        stepping=fields.get("stepping", fields.get("CPU revision", "")),
        name=fields.get("model name", platform.machine()),
        isa_flags_digest=digest(" ".join(sorted(flags.split()))),
        caches_bytes=_caches_bytes(),
        cores=usable_processors(),
    )


def own_processor() -> Processor:
    """Return what code this host's processor runs."""
    architecture = architecture_named(platform.machine())
    level = x86_level(_first_processor().get("flags", "").split()) if architecture == "x86_64" else 0
    return Processor(architecture=architecture, x86_level=level)


def x86_level(flags: Collection[str]) -> int:
    """Return the highest x86-64 level that the processor fully supports; 0 if the kernel reports no ``flags``."""
    if not flags:
        return 0
    missing = (number for number, added in enumerate(_X86_LEVELS, 1) if not added.issubset(flags))
    return next(missing, len(_X86_LEVELS) + 1)


def host_fingerprint(identity: CpuIdentity) -> str:
    """Return an id of this host that survives restarts."""
    machine_id = ""
    with contextlib.suppress(OSError):
        machine_id = _MACHINE_ID.read_text().strip()
    return digest("\n".join((machine_id, host_name(), identity.model_dump_json())))


def are_declared_siblings(cores: list[int], topology: Path = _TOPOLOGY) -> bool:
    """Whether ``topology`` declares that some of these are hardware threads of one physical core."""
    siblings = [_siblings_of(topology / f"cpu{core}") for core in cores]
    return any(known and known in siblings[:number] for number, known in enumerate(siblings))


def may_be_moved_apart(one: int, other: int, topology: Path = _TOPOLOGY) -> bool:
    """Whether a hypervisor may run two virtual cores, declared to share the last-level cache, where they share none.

    False on processors with one last-level cache for all cores.
    """
    if hypervisor() != "yes" or _first_processor().get("vendor_id") not in _CACHE_PER_GROUP:
        return False
    try:
        last = max((topology / f"cpu{one}" / "cache").glob("index[0-9]"))
        return other in _numbers((last / "shared_cpu_list").read_text())
    except (OSError, ValueError):
        return False


def _numbers(text: str) -> set[int]:
    """Parse a list of ranges such as 0-3,8."""
    parts = [part.partition("-") for part in text.strip().split(",")]
    return {number for first, _, last in parts for number in range(int(first), int(last or first) + 1)}


def _siblings_of(core: Path) -> str:
    try:
        return (core / "topology" / "thread_siblings_list").read_text().strip()
    except OSError:
        return ""


def microcode() -> str:
    """Return the processor's microcode revision, or ``unknown``."""
    return _first_processor().get("microcode", "unknown")


def hypervisor() -> str:
    """Return ``yes`` inside a virtual machine, ``no`` on bare metal, or ``unknown``."""
    flags = _first_processor().get("flags")
    if flags is None:
        return "unknown"
    return "yes" if "hypervisor" in flags.split() else "no"


def _first_processor() -> dict[str, str]:
    fields: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in _CPU_INFO.read_text().split("\n\n", 1)[0].splitlines():
            name, _, value = line.partition(":")
            fields[name.strip()] = value.strip()
    return fields


def _caches_bytes() -> tuple[int, ...]:
    """Return the sizes of the first core's data and unified caches, innermost first."""
    sizes = []
    with contextlib.suppress(OSError):
        sizes = [
            _bytes((folder / "size").read_text().strip())
            for folder in sorted(_CACHES.glob("index*"))
            if (folder / "type").read_text().strip() != "Instruction"
        ]
    if sizes:
        return tuple(sizes)
    with contextlib.suppress(ValueError, OSError):
        sizes = [os.sysconf(name) for name in ("SC_LEVEL1_DCACHE_SIZE", "SC_LEVEL2_CACHE_SIZE", "SC_LEVEL3_CACHE_SIZE")]
    return tuple(size for size in sizes if size > 0)


def _bytes(text: str) -> int:
    if text and text[-1] in _SUFFIXES:
        return int(text[:-1]) * _SUFFIXES[text[-1]]
    return int(text or 0)
