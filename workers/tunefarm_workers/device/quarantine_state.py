"""A device that is not trusted for the moment, and the measurements that may have to be repeated for it."""

import time
from typing import Final

from tunefarm_schemas.tuning.measurement import Measurement

SLOWER: Final = "the device became slower than it was; its times cannot be trusted"
UNTRUSTED: Final = "the reference of a function that was computed here cannot be trusted"

_LONGEST_S = 30.0


class Quarantine:
    """Begun and ended on the lane's thread; its properties may be read on any thread."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._trouble = ""
        self._suspects: list[Measurement] = []

    @property
    def is_on(self) -> bool:
        """Whether the device is in quarantine."""
        return self._since_s is not None

    @property
    def trouble(self) -> str:
        """Why; empty while it is not."""
        return self._trouble if self.is_on else ""

    @property
    def suspects(self) -> list[Measurement]:
        """Measurements that were delivered since the device was last seen in order, while it is in quarantine."""
        return list(self._suspects) if self.is_on else []

    def begin(self, trouble: str) -> None:
        """Stop trusting the device; ``trouble`` tells why."""
        self._since_s = time.monotonic()
        self._trouble = trouble

    def end(self) -> None:
        """The device was seen in order."""
        self._since_s = None
        self._suspects.clear()

    def delivered(self, measurement: Measurement) -> None:
        """Note a measurement. A device that stays slow is used in the end, and then it is what there is."""
        if not self.is_on:
            self._suspects.append(measurement)

    def holds_back(self, now_s: float) -> bool:
        """Whether nothing is measured: a device that stays slow is used after a while."""
        return self._since_s is not None and now_s < self._since_s + _LONGEST_S
