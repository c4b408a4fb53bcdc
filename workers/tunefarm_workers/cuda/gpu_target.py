"""Targets and identities of GPUs."""

import json

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.processor import card_runs
from tunefarm_schemas.frozen import canonical_json, digest
from tunefarm_schemas.tuning.device import Device, Environment, ReferenceKernelTimes
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.cuda.gpu_facts import GpuFacts
from tunefarm_workers.device.cpu_identity import CpuIdentity
from tunefarm_workers.device.device_identity import classified
from tunefarm_workers.device.environment import present_environment
from tunefarm_workers.device.host_name import host_name

_MODERATE_SHARED_BYTES = 48 * 1024
"""Available to every block by default; TVM's kernels do not request more."""


def target_of_gpu(facts: GpuFacts) -> str:
    """Return a target for the device as JSON, with all attributes that schedule rules read."""
    return canonical_json(
        {
            "kind": "cuda",
            "arch": facts.architecture,
            "max_threads_per_block": 1024,
            "max_shared_memory_per_block": _MODERATE_SHARED_BYTES,
            "thread_warp_size": 32,
        }
    )


def check_architecture(task: MeasureTask, facts: GpuFacts) -> None:
    """Reject a target whose code the device cannot run.

    Raises:
        BadInput: its architecture is newer than the device's, or incompatible.
    """
    asked = str(json.loads(task.target).get("arch", ""))
    runs = card_runs(asked, facts.architecture)
    fix = f"Use the device's own target: {target_of_gpu(facts)}."
    if runs is None:
        raise BadInput("target", f"its arch is {asked!r}.", fix)
    if not runs:
        raise BadInput("target", f"its arch {asked} does not run on {facts.name} with {facts.architecture}.", fix)


def gpu_device(facts: GpuFacts, kind: str, times: ReferenceKernelTimes, known: Device | None) -> Device:
    """Return the device: its class consists of name, architecture, memory and the reference kernels' times."""
    identity = CpuIdentity(
        vendor="nvidia" if kind == "cuda" else "",
        family=facts.architecture,
        model=facts.name,
        stepping="",
        name=facts.name,
        isa_flags_digest=digest(facts.architecture),
        caches_bytes=(facts.memory_bytes,),
        cores=0,
    )
    return classified(kind, identity, gpu_fingerprint(facts), host_name(), times, known)


def gpu_fingerprint(facts: GpuFacts) -> str:
    """Return an id of this device that does not depend on its host."""
    return digest(f"gpu\n{facts.uuid}")


def gpu_environment(facts: GpuFacts) -> Environment:
    """Return the environment, with the driver as microcode and the clock as governor."""
    return present_environment().model_copy(
        update={
            "microcode": f"driver {facts.driver}",
            "governor": f"{facts.clock_mhz} MHz at {facts.temperature_c} °C",
        }
    )
