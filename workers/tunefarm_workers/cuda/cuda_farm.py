"""A GPU of this host as a device of a tuner."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.processor import Processor
from tunefarm_schemas.host_cores import usable_processors
from tunefarm_schemas.tuning.device import Device, Environment
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.compile.cuda_toolchain import cuda_toolchain
from tunefarm_workers.cuda.cuda_settings import CudaSettings
from tunefarm_workers.cuda.gpu_connection import GpuConnection
from tunefarm_workers.cuda.gpu_facts import GpuFacts, gpu_facts
from tunefarm_workers.cuda.gpu_target import check_architecture, gpu_device, gpu_environment, target_of_gpu
from tunefarm_workers.session.compiler.compiler import Compiler
from tunefarm_workers.session.compiler.local_compiler import LocalCompiler
from tunefarm_workers.session.device.session_messages import Toolchain
from tunefarm_workers.session.device_access import DeviceAccess
from tunefarm_workers.session.exclusive_device import ExclusiveDevice
from tunefarm_workers.session.session_farm import SessionFarm

_FACTS_FRESH_S = 2.0
_CONTEXT_BYTES = 4 << 30
"""Memory of the device per context: half a gigabyte for the driver, the tensors, and what kernels allocate."""
_MAX_CONTEXTS = 16
_DEVICE_FOLDER = Path("/dev")
_READABLE = (
    *("/proc/driver/nvidia", "/proc/driver/nvidia-uvm", "/proc/devices", "/proc/modules", "/proc/filesystems"),
    "/proc/meminfo",
    *("/sys/bus/pci", "/sys/module", "/sys/class/drm", "/sys/devices", "/etc/nvidia", "/usr/share/nvidia"),
    "/usr/local/nvidia",
)
_STAND_IN = GpuFacts(
    name="processor in place of a GPU",
    uuid="none",
    architecture="sm_0",
    memory_bytes=0,
    driver="none",
    clock_mhz=0,
    temperature_c=0,
)


class CudaFarm(SessionFarm):
    """Compiles in processes without a CUDA context, and runs candidates in one child.

    The device is locked for this process: two processes that measure on it would distort each other's timings.
    """

    def __init__(
        self,
        fork_server: ForkServer,
        settings: CudaSettings,
        *,
        scratch: Path,
        compiler: Compiler | None = None,
        known: Device | None = None,
        bystanders: Callable[[], Sequence[Child]] = tuple,
    ) -> None:
        """Lock the device, create a context, and time the reference kernels. ``known`` is its last known identity.

        ``scratch`` is a folder for this farm alone. ``compiler`` defaults to one on this host, and is closed with the
        farm.

        Raises:
            BadInput: there is no such device, another process measures on it, or nothing can be compiled for it.
        """
        on_gpu = settings.device_type == "cuda"
        self._index = settings.index
        self._facts = facts_for(settings)
        self._facts_read_s = time.monotonic()
        self._reads_facts = on_gpu
        facts = self._facts
        self.processor = Processor(architecture=facts.architecture)
        super().__init__(
            fork_server,
            access_of(settings, facts),
            ExclusiveDevice(facts.uuid if on_gpu else f"stand-in {scratch}"),
            compiler or LocalCompiler(fork_server, scratch, settings.farm_settings(), _toolchain(settings)),
            identify=lambda times: gpu_device(facts, settings.device_type, times, known),
            environment=self._circumstances,
            bystanders=bystanders,
            settings=settings.farm_settings(),
        )

    @property
    def facts(self) -> GpuFacts:
        """The latest facts from the driver."""
        return self._facts

    @property
    def environment(self) -> Environment:
        """The present circumstances of measurements."""
        return self._circumstances()

    def _circumstances(self) -> Environment:
        if self._reads_facts and time.monotonic() - self._facts_read_s > _FACTS_FRESH_S:
            self._facts_read_s = time.monotonic()
            with suppress(BadInput):  # keep the latest facts: measuring reports a dead driver
                self._facts = gpu_facts(self._index)
        return gpu_environment(self._facts)


def facts_for(settings: CudaSettings) -> GpuFacts:
    """Return the facts of the device that ``settings`` name. Raises ``BadInput``."""
    return gpu_facts(settings.index) if settings.device_type == "cuda" else _STAND_IN


def access_of(settings: CudaSettings, facts: GpuFacts) -> DeviceAccess:
    """Describe how to access the device of ``settings``."""
    on_gpu = settings.device_type == "cuda"

    def check(task: MeasureTask) -> None:
        if on_gpu:
            check_architecture(task, facts)

    return DeviceAccess(
        name=facts.name,
        entry="tunefarm_workers.cuda.gpu_child:run",
        connection=GpuConnection(device_type=settings.device_type, index=settings.index).model_dump_json(),
        target_kinds=("cuda",) if on_gpu else ("llvm",),
        # Pack functions are not scheduled for GPU threads.
        abis=("stable",) if on_gpu else ("stable", "packed"),
        reference_target=target_of_gpu(facts) if on_gpu else f'{{"kind":"llvm","num-cores":{usable_processors()}}}',
        num_cores=0 if on_gpu else usable_processors(),
        confinement=_confinement(settings),
        # No memory limit: the driver reserves far more address space than the device has memory.
        limits=Limits() if on_gpu else settings.farm_settings().child_limits(),
        reach_s=settings.reach_s,
        run_allowance_s=settings.run_allowance_s,
        session_candidates=settings.session_candidates,
        parked_sessions=_contexts(settings, facts) - 1,
        flush_bytes=settings.flush_bytes,
        holds_builds_still=True,
        further_check=check,
    )


def _contexts(settings: CudaSettings, facts: GpuFacts) -> int:
    return settings.contexts or min(max(facts.memory_bytes // _CONTEXT_BYTES, 1), _MAX_CONTEXTS)


def _confinement(settings: CudaSettings) -> Confinement:
    if settings.device_type != "cuda":
        return Confinement.strict(may_pin_threads=True)
    files = tuple(sorted(str(path) for path in _DEVICE_FOLDER.glob("nvidia*")))
    if settings.confined:
        return Confinement(readable=_READABLE, devices=files)
    return Confinement(readable=("/",), devices=(*files, "/dev"), writable=("/dev/shm",), may_fork=True)  # noqa: S108


def _toolchain(settings: CudaSettings) -> Toolchain:
    return cuda_toolchain(settings.compiler, settings.toolkit) if settings.device_type == "cuda" else Toolchain()
