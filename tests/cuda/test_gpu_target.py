"""GPU targets, devices and CUDA source on a host without a GPU."""

import numpy as np
import pytest
import tvm

from tests.client.bundle.cuda_functions import mirrored_sum
from tests.workers import workloads
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.features.features import FeatureExtractor
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target
from tunefarm_workers.cuda.gpu_facts import facts_of, gpu_facts
from tunefarm_workers.cuda.gpu_target import check_architecture, gpu_device, target_of_gpu
from tunefarm_workers.session.device.default_schedule import scheduled_for
from tunefarm_workers.session.device.device_target import device_target
from tunefarm_workers.session.device.reference_library import reference_module
from tunefarm_workers.session.device.session_messages import Toolchain

FACTS = facts_of("NVIDIA H200, GPU-1, 9.0, 143771, 580.159.04, 345, 31\n", 0)
TIMES = ReferenceKernelTimes(compute_s=1e-4, bandwidth_s=1e-4, launch_s=3e-6)


def test_gpu_facts_are_parsed_from_nvidia_smi() -> None:
    assert FACTS.name == "NVIDIA H200"
    assert FACTS.architecture == "sm_90"
    assert FACTS.memory_bytes == 143771 << 20
    assert facts_of("T4, GPU-2, 7.5, 15360, 1, [N/A], 40", 0).clock_mhz == 0
    with pytest.raises(BadInput, match="nvidia-smi said"):
        facts_of("No devices were found", 0)


def test_missing_driver_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BadInput, match="no usable CUDA device 3"):
        gpu_facts(3)


def test_gpu_class_ignores_clock_temperature_and_driver() -> None:
    warm = FACTS.model_copy(update={"clock_mhz": 1980, "temperature_c": 70, "driver": "590"})
    other = FACTS.model_copy(update={"memory_bytes": 80 << 30})
    device = gpu_device(FACTS, "cuda", TIMES, None)
    assert gpu_device(warm, "cuda", TIMES, None).device_class == device.device_class
    assert gpu_device(other, "cuda", TIMES, None).device_class != device.device_class
    assert device.device_class.kind == "cuda"


@pytest.mark.parametrize(
    ("arch", "runs"),
    [("sm_90", True), ("sm_90a", True), ("sm_80", False), ("sm_80a", False), ("sm_100", False), ("", False)],
)
def test_task_for_another_gpu_architecture_is_refused(arch: str, runs: bool) -> None:
    task = workloads.task(workloads.matmul(), "e", target=f'{{"kind":"cuda","arch":"{arch}"}}')
    if runs:
        check_architecture(task, FACTS)
    else:
        with pytest.raises(BadInput, match="arch"):
            check_architecture(task, FACTS)


def source_of(module: tvm.IRModule, target: object) -> str:
    """CUDA source; compiling it needs NVIDIA's compiler."""
    built = tvm.tirx.build(module, target=target)
    return str(built.imports[0].inspect_source())


@pytest.mark.faults
def test_sampled_schedules_lower_to_cuda_source() -> None:
    canonical = canonical_target(target_of_gpu(FACTS)).target
    module = workloads.matmul()
    space = search_space(module, canonical, "stable", Space())
    assert space.sketches
    scheduler, random = Scheduler(space), np.random.default_rng(1)
    rows = space.sketches[0].sample(random, 64)
    features, _ = FeatureExtractor(space).features(0, rows)
    assert len(features) == 64
    fitting = []
    for row in rows:
        applied = scheduler.apply(Point(0, tuple(row.tolist())))
        if isinstance(applied, Scheduled):
            fitting.append(applied.trace)
        if len(fitting) == 2:
            break
    assert len(fitting) == 2
    target = device_target(canonical.canonical, Toolchain())
    for trace in fitting:
        source = source_of(scheduled_for(module, trace.text, target), target)
        assert "__global__" in source
        assert "__shared__" in source


@pytest.mark.parametrize("trace", [None, "[[],[]]"])
def test_untuned_function_is_bound_to_threads(trace: str | None) -> None:
    target = device_target(target_of_gpu(FACTS), Toolchain())
    assert "threadIdx.x" in source_of(scheduled_for(workloads.convolution(), trace, target), target)


def test_each_stage_of_an_untuned_function_is_bound_to_threads() -> None:
    target = device_target(target_of_gpu(FACTS), Toolchain())
    module = load_json(mirrored_sum().module_json)
    assert source_of(scheduled_for(module, None, target), target).count("__global__") == 2


def test_reference_kernels_lower_to_cuda_source() -> None:
    target = device_target(target_of_gpu(FACTS), Toolchain())
    source = source_of(reference_module(target, 1), target)
    assert all(name in source for name in ("compute_kernel", "bandwidth_kernel", "launch_kernel"))
