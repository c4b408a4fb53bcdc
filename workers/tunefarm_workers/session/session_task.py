"""An exploration on a device that is reached through a session."""

from dataclasses import dataclass

from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.tuning.least_work import disbelief, least_latency_s
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.lane.open_task import OpenTask


@dataclass
class SessionTask:
    """``opened`` holds inputs and referee on this host, for this host's own processor; ``order`` is for the device."""

    opened: OpenTask
    order: MeasureTask

    def disbelief(self, latency_s: float) -> TrialFailure | None:
        """Why a time cannot be one of this function on a device of the target; None where it may be."""
        least_s = least_latency_s(self.opened.least_work, self.order.target, self.order.num_cores)
        return disbelief(latency_s, least_s)

    @property
    def exploration_id(self) -> str:
        """Which exploration it is."""
        return self.order.exploration_id
