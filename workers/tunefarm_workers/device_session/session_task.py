"""An exploration on a device that is reached through a session."""

from dataclasses import dataclass

from tunefarm_schemas.measurement import MeasureTask
from tunefarm_workers.open_task import OpenTask


@dataclass
class SessionTask:
    """``opened`` holds inputs and referee on this host, for this host's own processor; ``order`` is for the device."""

    opened: OpenTask
    order: MeasureTask

    @property
    def exploration_id(self) -> str:
        """Which exploration it is."""
        return self.order.exploration_id
