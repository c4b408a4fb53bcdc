"""What a fork server loads before it forks the children of sessions with devices."""

from typing import Final

from tunefarm_workers.child import preload as of_processor

PRELOAD: Final = "tunefarm_workers.session.device.preload:preload"


def preload() -> None:
    """Load what candidates need that are compiled here and run elsewhere. Opens no device, and runs no kernel."""
    of_processor.preload()
