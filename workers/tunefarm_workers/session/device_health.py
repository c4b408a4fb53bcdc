"""Whether a device may be used now: it can be away, come back, and be away again."""

from dataclasses import dataclass

from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_workers.device.drift import RECHECK_S, Drift


@dataclass(frozen=True)
class HealthSettings:
    """Figures in seconds and counts.

    Attributes:
        first_wait_s: between losing a device and the first try to reach it again; each further wait is twice as long.
        longest_wait_s: the longest of these waits.
        patience_s: a device that is away for so long is given up, and what waits for it fails.
        losses: so many losses with no candidate measured between them put it into quarantine.
        quarantine_s: how long it is left alone then.
        check_every_s: how often the reference kernels are timed.
    """

    first_wait_s: float = 0.25
    longest_wait_s: float = 5.0
    patience_s: float = 120.0
    losses: int = 3
    quarantine_s: float = 30.0
    check_every_s: float = 30.0


class DeviceHealth:
    """Takes in what happened to a device, with the monotonic time, and says what may be done."""

    def __init__(self, settings: HealthSettings, baseline: ReferenceKernelTimes | None) -> None:
        """``baseline``: the reference kernels' times when all was well; None takes those of the first check."""
        self._settings = settings
        self._drift = Drift(baseline)
        self._wait_s = settings.first_wait_s
        self._patience_s = settings.patience_s
        self._next_try_s = 0.0
        self._away_since_s: float | None = None
        self._losses = 0
        self._check_due_s: float | None = None
        self.reason = ""
        """Why it is away or in quarantine, for people."""
        self.quarantined = False

    def may_try(self, now_s: float) -> bool:
        """Whether it may be used or reached for now."""
        return now_s >= self._next_try_s

    @property
    def next_try_s(self) -> float:
        """From when on it may be."""
        return self._next_try_s

    def reached(self) -> None:
        """A session began."""
        self._away_since_s = None
        self._wait_s = self._settings.first_wait_s
        self._patience_s = self._settings.patience_s

    def unreachable(self, now_s: float, reason: str) -> None:
        """A session could not begin."""
        self.reason = reason
        self._away_since_s = now_s if self._away_since_s is None else self._away_since_s
        self._next_try_s = max(self._next_try_s, now_s + self._wait_s)
        self._wait_s = min(self._wait_s * 2, self._settings.longest_wait_s)
        self._check_due_s = now_s

    def lost(self, now_s: float, reason: str) -> None:
        """It went away in the middle of something."""
        self._losses += 1
        self.unreachable(now_s, reason)
        if self._losses >= self._settings.losses:
            self._quarantine(now_s, self._settings.quarantine_s)

    def measured(self) -> None:
        """A candidate was measured from its beginning to its end."""
        self._losses = 0

    def given_up(self, now_s: float) -> bool:
        """Whether it is away for so long that nothing should wait for it any more; asked again, patience is short."""
        if self._away_since_s is None or now_s - self._away_since_s < self._patience_s:
            return False
        self._away_since_s = None
        self._patience_s = 2 * self._settings.longest_wait_s
        return True

    def look_now(self) -> None:
        """Have the reference kernels timed before the next candidate: a time was not to be believed."""
        self._check_due_s = 0.0

    def check_due(self, now_s: float) -> bool:
        """Whether the reference kernels should be timed before the next candidate."""
        if self._check_due_s is None:
            self._check_due_s = now_s + self._settings.check_every_s
        return now_s >= self._check_due_s

    def checked(self, times: ReferenceKernelTimes, now_s: float) -> bool:
        """Take in the reference kernels' present times: slow ones are drift, as usual ones end a quarantine.

        Whether the device is in order beyond doubt, so that what it measured until now can be trusted.
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
        # A device that stays slow through its quarantine is used: it is what there is.
        return is_sure and not self._drift.drifted

    def _quarantine(self, now_s: float, wait_s: float) -> None:
        self.quarantined = True
        self._next_try_s = now_s + wait_s
        self._losses = 0
