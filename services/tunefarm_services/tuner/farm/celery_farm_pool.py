"""The lanes that measure for one job."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Self

from tunefarm_schemas.farm.farm_message import MESSAGE_VERSION
from tunefarm_schemas.farm.lane import Lane
from tunefarm_schemas.tuning.device import Device
from tunefarm_services.store.catalog.lane_repository import LaneRepository
from tunefarm_services.store.store_error import StoreUnavailable

FRESH_S: Final = 1.0
MAX_EFFORT: Final = 0.02
"""Share of the time that reading the lanes of a large farm may take."""
MAX_FRESH_S: Final = 5.0
MAX_ROOM: Final = 4096
"""Maximum number of one job's candidates in the broker."""


class LanePool:
    """The lanes of one device class and code generator, whose measurements are comparable.

    Attributes:
        device: one device of the class, as its lane reported it.
        code_generator: compiler and back end with their versions.
    """

    def __init__(self, device: Device, code_generator: str, lanes: Callable[[], Sequence[Lane]]) -> None:
        """``lanes`` returns the registered lanes of the device's class, or raises StoreUnavailable."""
        self.device = device
        self.code_generator = code_generator
        self._lanes = lanes
        self._room = 0
        self._fresh_until_s = 0.0
        self._lock = threading.Lock()

    @classmethod
    def registered(cls, lanes: LaneRepository, device: Device, code_generator: str) -> Self:
        """The pool of the lanes in the store."""
        class_id = device.device_class.device_class_id
        return cls(device, code_generator, lambda: lanes.find(class_id))

    @property
    def device_class_id(self) -> str:
        """The device class."""
        return self.device.device_class.device_class_id

    def room(self) -> int:
        """The number of candidates that all active lanes together accept at once; 0 without active lanes."""
        with self._lock:
            now_s = time.monotonic()
            if now_s < self._fresh_until_s:
                return self._room
            self._fresh_until_s = now_s + FRESH_S
            try:
                lanes = self._lanes()
            except StoreUnavailable:
                return self._room
            self._room = min(sum(lane.room for lane in lanes if self._serves(lane)), MAX_ROOM)
            read_s = time.monotonic() - now_s
            self._fresh_until_s = now_s + min(max(FRESH_S, read_s / MAX_EFFORT), MAX_FRESH_S)
            return self._room

    def _serves(self, lane: Lane) -> bool:
        return (
            lane.state.takes_work
            and lane.protocol_version == MESSAGE_VERSION
            and lane.code_generator == self.code_generator
            and lane.device.device_class.device_class_id == self.device_class_id
        )
