"""A lane on a board behind this host."""

from pathlib import Path
from typing import Final

from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.compile.elsewhere import elsewhere
from tunefarm_workers.device.known_device import KnownDevice
from tunefarm_workers.gateway.gateway_farm import GatewayFarm, board_fingerprint
from tunefarm_workers.gateway.gateway_settings import GatewaySettings
from tunefarm_workers.worker.preloads import SESSION
from tunefarm_workers.worker.settings import WorkerSettings
from tunefarm_workers.worker.settings_of_environment import settings_of_environment

PRELOAD: Final = SESSION


def build(settings: WorkerSettings, fork_server: ForkServer, scratch: Path, blobs: Blobs) -> GatewayFarm:
    """Create a farm for the board that the variables ``TUNEFARM_GATEWAY_*`` describe. Raises BadInput, ForkFailed."""
    gateway = gateway_settings()
    known = KnownDevice(settings.home, board_fingerprint(gateway))
    compiler = elsewhere(gateway.compile_pool, settings, blobs)
    farm = GatewayFarm(fork_server, gateway, scratch=scratch, compiler=compiler, known=known.read())
    known.write(farm.device)
    return farm


def gateway_settings() -> GatewaySettings:
    """Read the settings from the environment. Raises BadInput for the first invalid field."""
    return settings_of_environment(GatewaySettings, "Set it as the board requires.")
