"""Targets by short names, which work wherever a target is accepted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class NamedTarget:
    """TVM's attributes of a target under a short name. Missing ones are filled in where the name is used."""

    name: str
    description: str
    attributes: Mapping[str, object]


def _gpu(name: str, description: str, arch: str) -> NamedTarget:
    attributes = {
        "kind": "cuda",
        "arch": arch,
        "max_shared_memory_per_block": 49152,
        "max_threads_per_block": 1024,
        "thread_warp_size": 32,
    }
    return NamedTarget(name, description, attributes)


NAMED_TARGETS: Final = (
    NamedTarget(
        "x86-64-v2",
        "Any x86 processor since about 2009, with SSE 4.2.",
        {"kind": "llvm", "mcpu": "x86-64-v2", "mtriple": "x86_64-linux-gnu"},
    ),
    NamedTarget(
        "x86-64-v3",
        "x86 processors with AVX2 and FMA, since about 2013.",
        {"kind": "llvm", "mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu"},
    ),
    NamedTarget(
        "x86-64-v4",
        "x86 processors with AVX-512.",
        {"kind": "llvm", "mcpu": "x86-64-v4", "mtriple": "x86_64-linux-gnu"},
    ),
    NamedTarget(
        "raspberry-pi-4",
        "Raspberry Pi 4: four Cortex-A72 cores.",
        {"kind": "llvm", "mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu", "num-cores": 4},
    ),
    NamedTarget(
        "raspberry-pi-5",
        "Raspberry Pi 5: four Cortex-A76 cores.",
        {"kind": "llvm", "mcpu": "cortex-a76", "mtriple": "aarch64-linux-gnu", "num-cores": 4},
    ),
    NamedTarget(
        "graviton3",
        "AWS Graviton 3: Neoverse V1 with SVE.",
        {"kind": "llvm", "mcpu": "neoverse-v1", "mtriple": "aarch64-linux-gnu"},
    ),
    _gpu("nvidia-a100", "NVIDIA A100, sm_80.", "sm_80"),
    _gpu("nvidia-h100", "NVIDIA H100 and H200, sm_90.", "sm_90"),
)
PRESET_NAMES: Final = tuple(preset.name for preset in NAMED_TARGETS)


def preset_attributes(name: str) -> dict[str, object] | None:
    """TVM's attributes of the preset of that name; None if there is none."""
    found = next((preset for preset in NAMED_TARGETS if preset.name == name), None)
    return None if found is None else dict(found.attributes)
