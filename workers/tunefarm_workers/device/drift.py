"""Whether a device became slower than it was, by its reference kernels."""

from tunefarm_schemas.tuning.device import ReferenceKernelTimes

RECHECK_S = 0.2
"""How soon to check again while there is doubt."""
_BAND = 1.6
"""A reference kernel slower than its baseline by more than this is drift."""
_MEMORY_BAND = 3.0
"""The same for the copy, which all that shares the memory slows down."""
_CHECKS_TO_BE_SURE = 3
"""One slow check may be somebody else's moment, and one as usual a noisy device's luck; so many in a row are the
device's."""
CHECKS_TO_ACCEPT = 300
"""So many slow checks, ten minutes of quarantine, of a device that was never as remembered since are no passing
disturbance: it has changed for good, and is what there is."""


class Drift:
    """Takes in one check after the other."""

    def __init__(self, baseline: ReferenceKernelTimes | None = None, *, is_remembered: bool = False) -> None:
        """``baseline``: the kernels' times when all was well; None takes those of the first check.

        ``is_remembered`` where an earlier process took it: the device may have changed for good since then. It is held
        against what it was all the same, but not for ever.
        """
        self._baseline = baseline
        self._may_have_changed = is_remembered
        self._slow_checks = 0
        self._was_slower = False
        self._in_a_row = 0
        self.drifted = False

    def checked(self, now: ReferenceKernelTimes) -> bool:
        """Take in the present times; False where they contradict ``drifted``, so that another check is wanted."""
        self._baseline = baseline = self._baseline or now
        is_slower = now.compute_s > _BAND * baseline.compute_s or now.bandwidth_s > _MEMORY_BAND * baseline.bandwidth_s
        self._in_a_row = self._in_a_row + 1 if is_slower == self._was_slower else 1
        self._was_slower = is_slower
        self._slow_checks += is_slower
        if self._in_a_row >= _CHECKS_TO_BE_SURE:
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
