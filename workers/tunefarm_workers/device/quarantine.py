"""The quarantine of a device, and the measurements to repeat because of it."""

import time
from typing import Final

from tunefarm_schemas.tuning.measurement import Measurement

SLOWER: Final = "the device became slower than it was; its times cannot be trusted"
UNTRUSTED: Final = "the reference of a function that was computed here cannot be trusted"

_MAX_S = 30.0


class Quarantine:
    """Changed on the lane's thread; properties may be read from any thread."""

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
        """Why it is in quarantine; empty if it is not."""
        return self._trouble if self.is_on else ""

    @property
    def suspects(self) -> list[Measurement]:
        """Measurements between the last good check and the quarantine; empty outside of quarantine."""
        return list(self._suspects) if self.is_on else []

    def begin(self, trouble: str) -> None:
        """Put the device into quarantine; ``trouble`` states why."""
        self._since_s = time.monotonic()
        self._trouble = trouble

    def end(self) -> None:
        """Note a good check, which ends the quarantine."""
        self._since_s = None
        self._suspects.clear()

    def delivered(self, measurement: Measurement) -> None:
        """Note a measurement, suspect until the next good check; during quarantine it is deliberate instead."""
        if not self.is_on:
            self._suspects.append(measurement)

    def holds_back(self, now_s: float) -> bool:
        """Whether measuring waits for the device to recover. After ``_MAX_S`` a slow device is used as it is."""
        since_s = self._since_s
        return since_s is not None and now_s < since_s + _MAX_S
