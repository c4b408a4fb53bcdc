"""What a fork server loads before it forks the children of sessions with devices."""

from typing import Final

import tunefarm_workers.cuda.gpu_child
import tunefarm_workers.device_session.bounds_child
import tunefarm_workers.device_session.build_child
import tunefarm_workers.gateway.board_child  # noqa: F401 - loaded for the children
from tunefarm_workers import preload as of_processor

PRELOAD: Final = "tunefarm_workers.device_session.preload:preload"


def preload() -> None:
    """Load what candidates need that are compiled here and run elsewhere. Opens no device, and runs no kernel."""
    of_processor.preload()
