"""What an attempt and a comparison need of their lane."""

from typing import Protocol

from tunefarm_workers.lane.open_tasks import OpenTasks
from tunefarm_workers.threads.thread_watch import ThreadWatch
from tunefarm_workers.timing.device_arbiter import DeviceArbiter


class MeasurementOwner(Protocol):
    """The lane of an attempt or a comparison."""

    @property
    def device_arbiter(self) -> DeviceArbiter:
        """Grants exclusive use of the device."""

    @property
    def tasks(self) -> OpenTasks:
        """The open tasks."""

    @property
    def thread_watch(self) -> ThreadWatch:
        """Tells whether another process interferes with the threads of a child."""

    def check_device(self) -> None:
        """Check the device: an implausible latency was measured."""
