"""Detects from its reference kernels that a device became slower.

1. A check is slow if the compute kernel or the copy exceeds its band around the baseline.
2. Several equal checks in a row change the verdict: one slow check may be a momentary disturbance, one fast check luck.
3. If the baseline is from an earlier process and the device was never as fast since, it may have changed for good, such
   as by a migration: after ten minutes the present times become the baseline.
"""

from tunefarm_schemas.tuning.device import ReferenceKernelTimes

RECHECK_S = 0.2
"""Interval between checks that contradict the verdict."""
_BAND = 1.6
"""Allowed ratio to the baseline."""
_MEMORY_BAND = 3.0
"""The same for the copy, which everything that shares the memory slows down."""
_MIN_CHECKS = 3
CHECKS_TO_ACCEPT = 300
"""Slow checks, ten minutes of quarantine, after which the device has changed for good."""


class DriftDetector:
    """The verdict over successive checks."""

    def __init__(self, baseline: ReferenceKernelTimes | None = None, *, is_remembered: bool = False) -> None:
        """``baseline``: times of the healthy device; None takes those of the first check.

        ``is_remembered``: an earlier process measured them.
        """
        self._baseline = baseline
        self._may_have_changed = is_remembered
        self._slow_checks = 0
        self._was_slower = False
        self._in_a_row = 0
        self.drifted = False

    def checked(self, now: ReferenceKernelTimes) -> bool:
        """Add a check; False if it contradicts ``drifted``, so that another check is needed."""
        self._baseline = baseline = self._baseline or now
        is_slower = now.compute_s > _BAND * baseline.compute_s or now.bandwidth_s > _MEMORY_BAND * baseline.bandwidth_s
        self._in_a_row = self._in_a_row + 1 if is_slower == self._was_slower else 1
        self._was_slower = is_slower
        self._slow_checks += is_slower
        if self._in_a_row >= _MIN_CHECKS:
            self.drifted = is_slower
            self._may_have_changed = self._may_have_changed and is_slower
        if self._may_have_changed and self._slow_checks >= CHECKS_TO_ACCEPT:
            self._accept(now)
            return True
        return self.drifted == is_slower

    def _accept(self, now: ReferenceKernelTimes) -> None:
        self._baseline = now
        self._may_have_changed = False
        self._was_slower = False
        self._in_a_row = 0
        self.drifted = False
