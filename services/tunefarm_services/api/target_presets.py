"""Targets by short names."""

from typing import Final

from tunefarm_services.api.views.target import TargetPreset

PRESETS: Final = (
    TargetPreset(name="host", description="The processor that the service itself runs on.", target=None),
    TargetPreset(
        name="x86-64-v2",
        description="Any x86 processor since about 2009, with SSE 4.2.",
        target={"kind": "llvm", "mcpu": "x86-64-v2", "mtriple": "x86_64-linux-gnu"},
    ),
    TargetPreset(
        name="x86-64-v3",
        description="x86 processors with AVX2 and FMA, since about 2013.",
        target={"kind": "llvm", "mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu"},
    ),
    TargetPreset(
        name="x86-64-v4",
        description="x86 processors with AVX-512.",
        target={"kind": "llvm", "mcpu": "x86-64-v4", "mtriple": "x86_64-linux-gnu"},
    ),
    TargetPreset(
        name="raspberry-pi-4",
        description="Raspberry Pi 4: four Cortex-A72 cores.",
        target={"kind": "llvm", "mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu", "num-cores": 4},
    ),
    TargetPreset(
        name="raspberry-pi-5",
        description="Raspberry Pi 5: four Cortex-A76 cores.",
        target={"kind": "llvm", "mcpu": "cortex-a76", "mtriple": "aarch64-linux-gnu", "num-cores": 4},
    ),
    TargetPreset(
        name="graviton3",
        description="AWS Graviton 3: Neoverse V1 with SVE.",
        target={"kind": "llvm", "mcpu": "neoverse-v1", "mtriple": "aarch64-linux-gnu"},
    ),
    TargetPreset(
        name="nvidia-a100",
        description="NVIDIA A100, sm_80.",
        target={
            "kind": "cuda",
            "arch": "sm_80",
            "max_shared_memory_per_block": 49152,
            "max_threads_per_block": 1024,
            "thread_warp_size": 32,
        },
    ),
    TargetPreset(
        name="nvidia-h100",
        description="NVIDIA H100 and H200, sm_90.",
        target={
            "kind": "cuda",
            "arch": "sm_90",
            "max_shared_memory_per_block": 49152,
            "max_threads_per_block": 1024,
            "thread_warp_size": 32,
        },
    ),
)
BY_NAME: Final = {preset.name: preset for preset in PRESETS}
