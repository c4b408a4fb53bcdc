"""A board behind TVM's RPC as a device of a tuner."""

from collections.abc import Callable, Sequence
from pathlib import Path

from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.farm.processor import Processor, processor_for
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.device import Device, ReferenceKernelTimes
from tunefarm_schemas.tuning.target import Target
from tunefarm_workers.device.cpu_identity import CpuIdentity, own_processor
from tunefarm_workers.device.device_identity import classified
from tunefarm_workers.device.environment import present_environment
from tunefarm_workers.device.host_name import host_name
from tunefarm_workers.gateway.board_connection import BoardConnection
from tunefarm_workers.gateway.gateway_settings import GatewaySettings
from tunefarm_workers.session.compiler.compiler import Compiler
from tunefarm_workers.session.compiler.local_compiler import LocalCompiler
from tunefarm_workers.session.device.session_messages import Toolchain
from tunefarm_workers.session.device_access import DeviceAccess
from tunefarm_workers.session.device_health import HealthSettings
from tunefarm_workers.session.exclusive_device import ExclusiveDevice
from tunefarm_workers.session.session_farm import SessionFarm

_CHILD_MEMORY_BYTES = 2 << 30
_LINGER_BEYOND_S = 5.0


class GatewayFarm(SessionFarm):
    """Compiles candidates off the board, and runs them on it in a session of a confined child.

    If the board is lost, only the running candidate fails, as ``device_lost``; the others wait until it is back.
    """

    def __init__(
        self,
        fork_server: ForkServer,
        settings: GatewaySettings,
        *,
        scratch: Path,
        compiler: Compiler | None = None,
        known: Device | None = None,
        bystanders: Callable[[], Sequence[Child]] = tuple,
    ) -> None:
        """Lock the board, connect, and time the reference kernels. ``known`` is the board's last known identity.

        ``scratch`` is a folder for this farm alone. ``compiler`` defaults to one on this host, and is closed with the
        farm.

        Raises:
            BadInput: the board does not answer, another process measures on it, or nothing can be compiled for it.
        """
        self.processor = processor_of(settings)
        super().__init__(
            fork_server,
            access_of(settings),
            ExclusiveDevice(f"{settings.host}:{settings.port}"),
            compiler or LocalCompiler(fork_server, scratch, settings.farm_settings(), toolchain_of(settings)),
            identify=lambda times: board_of(settings, times, known),
            environment=present_environment,
            bystanders=bystanders,
            settings=settings.farm_settings(),
            health=health_of(settings),
        )


def access_of(settings: GatewaySettings) -> DeviceAccess:
    """Describe how to access the board of ``settings``."""
    connection = BoardConnection(
        host=settings.host,
        port=settings.port,
        key=settings.key.get_secret_value(),
        session_s=settings.session_s,
    )
    return DeviceAccess(
        name=f"board {settings.board}",
        entry="tunefarm_workers.gateway.board_child:run",
        connection=connection.model_dump_json(),
        target_kinds=("llvm",),
        reference_target=settings.target,
        num_cores=settings.cores,
        confinement=Confinement(connect_ports=(settings.port,)),
        limits=Limits(memory_bytes=_CHILD_MEMORY_BYTES),
        # A hanging kernel keeps the board busy until its server ends that session.
        reach_s=settings.reach_s + settings.session_s,
        run_allowance_s=settings.run_allowance_s,
        session_candidates=settings.session_candidates,
        session_s=settings.session_s,
        # A client must not disconnect during a call: TVM's server would stop listening for good.
        linger_s=settings.session_s + _LINGER_BEYOND_S,
    )


def toolchain_of(settings: GatewaySettings) -> Toolchain:
    """Return how this host links libraries for the board."""
    return Toolchain(linker=settings.linker_command(), linker_flags=tuple(settings.linker_flags.split()))


def health_of(settings: GatewaySettings) -> HealthSettings:
    """Return when to retry the board, to give it up, and to quarantine it."""
    return HealthSettings(
        patience_s=settings.patience_s,
        losses=settings.losses,
        quarantine_s=settings.quarantine_s,
        check_every_s=settings.check_every_s,
    )


def board_of(settings: GatewaySettings, times: ReferenceKernelTimes, known: Device | None) -> Device:
    """Return the device: the declared facts, and the times of its reference kernels."""
    identity = CpuIdentity(
        vendor=settings.vendor,
        family=settings.family,
        model=settings.model,
        stepping="",
        name=settings.board,
        isa_flags_digest=digest(settings.target),
        caches_bytes=(),
        cores=settings.cores,
    )
    return classified("cpu", identity, board_fingerprint(settings), host_name(), times, known)


def processor_of(settings: GatewaySettings) -> Processor:
    """Return what code the board runs. Without a declared architecture, it is this host's."""
    declared = processor_for(Target(canonical=settings.target, kind="llvm", num_cores=settings.cores))
    return Processor(architecture=declared.architecture or own_processor().architecture)


def board_fingerprint(settings: GatewaySettings) -> str:
    """Return an id of this board from its serial number, or from its address."""
    serial = settings.serial or f"{host_name()}:{settings.host}:{settings.port}"
    return digest(f"board\n{settings.board}\n{serial}")
