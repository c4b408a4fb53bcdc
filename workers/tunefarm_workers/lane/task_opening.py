"""Opens explorations on a host whose processes may be killed."""

from collections.abc import Callable
from typing import Final

from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.conversation.argument import Distribution
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.lane.deadlines import Deadlines
from tunefarm_workers.lane.open_task import HostLost, OpenTask

MAX_HOSTS_LOST: Final = 3
"""How many times a host that somebody killed is replaced."""


def opened_task(
    zygote: ForkServer,
    settings: FarmSettings,
    order: MeasureTask,
    on_progress: Callable[[OpenTask], None],
    distribution: Distribution,
    *,
    measures_here: bool = True,
) -> OpenTask:
    """A new host and referee for ``order``, whose candidates are measured on this host or by another device.

    Raises:
        BadInput: when the module cannot be read or fed.
        ForkFailed: there is nothing to fork from, or every host was killed while it started.
    """
    deadlines = Deadlines(
        first_build_s=settings.first_build_s,
        first_run_s=settings.first_run_s,
        cold_cache=PROTOCOLS[order.protocol_id].cold_cache,
        measures_here=measures_here,
    )
    lost = 0
    while True:
        try:
            return OpenTask(zygote, order, settings.child_limits(), deadlines, on_progress, distribution=distribution)
        except HostLost:
            if lost == MAX_HOSTS_LOST:
                raise
            lost += 1
