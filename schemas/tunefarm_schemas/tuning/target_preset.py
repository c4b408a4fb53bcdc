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


def _processor(name: str, description: str, triple: str, mcpu: str, **more: object) -> NamedTarget:
    return NamedTarget(name, description, {"kind": "llvm", "mcpu": mcpu, "mtriple": triple, **more})


def _x86(name: str, description: str) -> NamedTarget:
    return _processor(name, description, "x86_64-linux-gnu", name)


def _arm(name: str, description: str, mcpu: str, **more: object) -> NamedTarget:
    return _processor(name, description, "aarch64-linux-gnu", mcpu, **more)


def _apple(number: int, mcpu: str) -> NamedTarget:
    # The performance cores alone: the others are several times as slow.
    description = f"Apple M{number}: its four performance cores."
    return _processor(f"apple-m{number}", description, "arm64-apple-darwin", mcpu, **{"num-cores": 4})


NAMED_TARGETS: Final = (
    _x86("x86-64-v2", "Any x86 processor since about 2009, with SSE 4.2."),
    _x86("x86-64-v3", "x86 processors with AVX2 and FMA, since about 2013."),
    _x86("x86-64-v4", "x86 processors with AVX-512."),
    _x86("skylake-avx512", "Intel Xeon of 2017, with AVX-512."),
    _x86("icelake-server", "Intel Xeon of 2021, with AVX-512 VNNI."),
    _x86("sapphirerapids", "Intel Xeon of 2023, with AMX."),
    _x86("znver3", "AMD Zen 3 (EPYC 7003, Ryzen 5000), with AVX2."),
    _x86("znver4", "AMD Zen 4 (EPYC 9004, Ryzen 7000), with AVX-512."),
    _x86("znver5", "AMD Zen 5 (EPYC 9005, Ryzen 9000), with AVX-512."),
    _arm("raspberry-pi-3", "Raspberry Pi 3 and Zero 2 W: four Cortex-A53 cores.", "cortex-a53", **{"num-cores": 4}),
    _arm("raspberry-pi-4", "Raspberry Pi 4: four Cortex-A72 cores.", "cortex-a72", **{"num-cores": 4}),
    _arm("raspberry-pi-5", "Raspberry Pi 5: four Cortex-A76 cores.", "cortex-a76", **{"num-cores": 4}),
    _arm("graviton2", "AWS Graviton 2: Neoverse N1.", "neoverse-n1"),
    _arm("graviton3", "AWS Graviton 3: Neoverse V1 with SVE.", "neoverse-v1"),
    _arm("graviton4", "AWS Graviton 4: Neoverse V2 with SVE2.", "neoverse-v2"),
    _apple(1, "apple-a14"),
    _apple(2, "apple-a15"),
    _apple(3, "apple-a16"),
    _apple(4, "apple-m4"),
    _processor(
        "riscv64-v",
        "64-bit RISC-V with the vector extension 1.0.",
        "riscv64-linux-gnu",
        "generic-rv64",
        mattr=("+m", "+a", "+f", "+d", "+c", "+v"),
        mabi="lp64d",
    ),
    _processor(
        "wasm32-simd128",
        "WebAssembly with 128-bit vectors, on one thread.",
        "wasm32-unknown-unknown-wasm",
        "generic",
        mattr=("+simd128",),
        **{"num-cores": 1, "vector-width": 128},
    ),
    _gpu("nvidia-t4", "NVIDIA T4, sm_75.", "sm_75"),
    _gpu("nvidia-a100", "NVIDIA A100, sm_80.", "sm_80"),
    _gpu("nvidia-a10", "NVIDIA A10 and GeForce RTX 30, sm_86.", "sm_86"),
    _gpu("nvidia-l4", "NVIDIA L4 and GeForce RTX 40, sm_89.", "sm_89"),
    _gpu("nvidia-h100", "NVIDIA H100 and H200, sm_90.", "sm_90"),
)
PRESET_NAMES: Final = tuple(preset.name for preset in NAMED_TARGETS)


def preset_attributes(name: str) -> dict[str, object] | None:
    """TVM's attributes of the preset of that name; None if there is none."""
    found = next((preset for preset in NAMED_TARGETS if preset.name == name), None)
    return None if found is None else dict(found.attributes)
