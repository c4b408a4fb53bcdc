"""A lane that compiles libraries for devices of other hosts."""

import shutil
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.broker_client import connect
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.device import Device, ReferenceKernelTimes
from tunefarm_workers.broker.order_server import OpenLane
from tunefarm_workers.compile.compile_messages import compile_queue
from tunefarm_workers.compile.compile_server import CompileServer
from tunefarm_workers.compile.compile_settings import CompileSettings
from tunefarm_workers.compile.pool_heartbeat import PoolHeartbeat
from tunefarm_workers.device.cpu_identity import cpu_identity, host_fingerprint, own_processor
from tunefarm_workers.device.device_identity import classified
from tunefarm_workers.device.host_name import host_name
from tunefarm_workers.session.compiler.local_compiler import LocalCompiler
from tunefarm_workers.session.device.host_facts import host_facts
from tunefarm_workers.session.device.session_messages import Toolchain
from tunefarm_workers.worker.lane_opening import LaneContext
from tunefarm_workers.worker.preloads import NVIDIA_SESSION
from tunefarm_workers.worker.settings_of_environment import settings_of_environment

PRELOAD: Final = NVIDIA_SESSION
KIND: Final = "compile"


def open_lane(context: LaneContext) -> OpenLane:
    """Serve the pool that the variables ``TUNEFARM_COMPILE_*`` describe. Raises BadInput, ForkFailed."""
    settings = compile_settings()
    toolchain = settings.toolchain()
    _check_linker(toolchain)
    farm_settings = settings.farm_settings()
    facts = host_facts(context.fork_server, farm_settings.child_limits(), toolchain)
    compiler = LocalCompiler(context.fork_server, context.scratch, farm_settings, toolchain)
    context.parts.callback(compiler.close)
    broker = context.settings.broker()
    heartbeat = PoolHeartbeat(connect(broker), broker, settings.pool)
    server = CompileServer(
        compiler,
        facts.code_generator,
        context.blobs,
        context.send,
        context.lane_id,
        room=context.settings.worker_room or settings.build_lanes,
        is_alive=lambda: context.fork_server.alive,
        show=lambda: heartbeat.show(context.lane_id),
    )
    return OpenLane(
        server=server,
        queue=compile_queue(settings.pool),
        serves=f"compiles for the pool {settings.pool}",
        device=_device(),
        code_generator=facts.code_generator,
        processor=own_processor(),
    )


def compile_settings() -> CompileSettings:
    """The pool's settings from the environment. Raises BadInput for the first invalid field."""
    return settings_of_environment(CompileSettings, "Set it to what describes the pool.")


def _check_linker(toolchain: Toolchain) -> None:
    if toolchain.linker and shutil.which(toolchain.linker[0]) is None:
        problem = f"the program {toolchain.linker[0]!r} is not installed."
        raise BadInput("TUNEFARM_COMPILE_LINKER", problem, "Install the linker, or name one that is installed.")


def _device() -> Device:
    """This host as a compile device, which has no kernel times."""
    identity = cpu_identity()
    times = ReferenceKernelTimes(compute_s=0.0, bandwidth_s=0.0, launch_s=0.0)
    return classified(KIND, identity, digest(f"{KIND}\n{host_fingerprint(identity)}"), host_name(), times, None)
