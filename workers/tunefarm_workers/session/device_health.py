"""Decides whether a device may be used now, with backoff while it is away and quarantine while it is not trusted."""

from dataclasses import dataclass

from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_workers.device.drift_detector import RECHECK_S, DriftDetector


@dataclass(frozen=True)
class HealthSettings:
    """Limits of one device.

    Attributes:
        first_wait_s: from losing the device to the first reconnection; each further wait is twice as long.
        longest_wait_s: maximum of these waits.
        patience_s: how long the device may be away before the attempts that wait for it fail.
        losses: consecutive losses, with no candidate measured between them, that lead to quarantine.
        quarantine_s: minimum duration of a quarantine.
        check_every_s: interval between timings of the reference kernels.
    """

    first_wait_s: float = 0.25
    longest_wait_s: float = 5.0
    patience_s: float = 120.0
    losses: int = 3
    quarantine_s: float = 30.0
    check_every_s: float = 30.0


class DeviceHealth:
    """State machine of a device. Times are monotonic.

    - Away: from a loss or failed connection until the next connection; retried with exponential backoff.
    - Quarantined: after several losses in a row, or when the reference kernels are slower than their baseline. It ends
      when they take their usual time again.
    """

    def __init__(self, settings: HealthSettings, baseline: ReferenceKernelTimes | None) -> None:
        """``baseline``: the usual times of the reference kernels; None uses those of the first check."""
        self._settings = settings
        self._drift = DriftDetector(baseline)
        self._wait_s = settings.first_wait_s
        self._patience_s = settings.patience_s
        self._next_try_s = 0.0
        self._away_since_s: float | None = None
        self._losses = 0
        self._check_due_s: float | None = None
        self.reason = ""
        """Why the device is away or in quarantine, as text to show."""
        self.quarantined = False

    def may_try(self, now_s: float) -> bool:
        """Whether it may be used or connected to now."""
        return now_s >= self._next_try_s

    @property
    def next_try_s(self) -> float:
        """When ``may_try`` becomes true."""
        return self._next_try_s

    def reached(self) -> None:
        """Record that a session began."""
        self._away_since_s = None
        self._wait_s = self._settings.first_wait_s
        self._patience_s = self._settings.patience_s

    def unreachable(self, now_s: float, reason: str) -> None:
        """Record that a session could not begin."""
        self.reason = reason
        self._away_since_s = now_s if self._away_since_s is None else self._away_since_s
        self._next_try_s = max(self._next_try_s, now_s + self._wait_s)
        self._wait_s = min(self._wait_s * 2, self._settings.longest_wait_s)
        self._check_due_s = now_s

    def lost(self, now_s: float, reason: str) -> None:
        """Record that the device was lost while a candidate ran."""
        self._losses += 1
        self.unreachable(now_s, reason)
        if self._losses >= self._settings.losses:
            self._quarantine(now_s, self._settings.quarantine_s)

    def measured(self) -> None:
        """Record that a candidate ran to its end."""
        self._losses = 0

    def given_up(self, now_s: float) -> bool:
        """Whether the device is away for too long to be waited for. The next limit is short, until it is reached."""
        if self._away_since_s is None or now_s - self._away_since_s < self._patience_s:
            return False
        self._away_since_s = None
        self._patience_s = 2 * self._settings.longest_wait_s
        return True

    def request_check(self) -> None:
        """Time the reference kernels before the next candidate, because of an implausible time."""
        self._check_due_s = 0.0

    def check_due(self, now_s: float) -> bool:
        """Whether to time the reference kernels before the next candidate."""
        if self._check_due_s is None:
            self._check_due_s = now_s + self._settings.check_every_s
        return now_s >= self._check_due_s

    def checked(self, times: ReferenceKernelTimes, now_s: float) -> bool:
        """Record times of the reference kernels: slow ones begin a quarantine, usual ones end it.

        Returns whether the device is certainly in order, so that its measurements so far can be trusted.
        """
        is_sure = self._drift.checked(times)
        self._check_due_s = now_s + self._settings.check_every_s
        if not is_sure:
            self._check_due_s = self._next_try_s = now_s + RECHECK_S
        elif not self._drift.drifted:
            self.quarantined = False
            self.reason = ""
        elif not self.quarantined:
            self.reason = "The device became slower than it was; its times cannot be trusted."
            self._quarantine(now_s, self._settings.quarantine_s)
            self._check_due_s = self._next_try_s
        # A device that is still slow after its quarantine is used again: no work would ever finish otherwise.
        return is_sure and not self._drift.drifted

    def _quarantine(self, now_s: float, wait_s: float) -> None:
        self.quarantined = True
        self._next_try_s = now_s + wait_s
        self._losses = 0
