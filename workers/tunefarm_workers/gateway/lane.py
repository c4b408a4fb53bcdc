"""A lane on a board behind this host."""

from pathlib import Path
from typing import Final

from pydantic import ValidationError

from tunefarm_sandbox.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_workers.celery_worker.blobs import Blobs
from tunefarm_workers.celery_worker.settings import WorkerSettings
from tunefarm_workers.compile_lane.elsewhere import elsewhere
from tunefarm_workers.device_session.known_device import KnownDevice
from tunefarm_workers.device_session.preload import PRELOAD as SESSION_PRELOAD
from tunefarm_workers.gateway.gateway_farm import GatewayFarm, board_fingerprint
from tunefarm_workers.gateway.gateway_settings import GatewaySettings

PRELOAD: Final = ("tvm", SESSION_PRELOAD)


def build(settings: WorkerSettings, zygote: ForkServer, scratch: Path, blobs: Blobs) -> GatewayFarm:
    """Reach the board that the variables ``TUNEFARM_GATEWAY_*`` describe. Raises BadInput, ForkFailed."""
    gateway = gateway_settings()
    known = KnownDevice(settings.home, board_fingerprint(gateway))
    compiler = elsewhere(gateway.compile_pool, settings, blobs)
    farm = GatewayFarm(zygote, gateway, scratch=scratch, compiler=compiler, known=known.read())
    known.write(farm.device)
    return farm


def gateway_settings() -> GatewaySettings:
    """What the environment says of the board. Raises BadInput for the first field that is wrong."""
    try:
        return GatewaySettings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"]).upper()
        field = f"TUNEFARM_GATEWAY_{name}" if name else "TUNEFARM_GATEWAY_*"
        raise BadInput(field, f"{first['msg']}.", "Set it to what describes the board.") from error
