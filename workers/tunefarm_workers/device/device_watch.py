"""Times the reference kernels of this host's device at the start and periodically, and detects drift."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.farm.lane import ReferenceCheck
from tunefarm_schemas.tuning.device import Device, ReferenceKernelTimes
from tunefarm_workers.conversation.event_loop import EventLoop
from tunefarm_workers.conversation.messages import DeviceChild, KernelRequest
from tunefarm_workers.device.cpu_identity import cpu_identity, host_fingerprint
from tunefarm_workers.device.device_identity import device_of
from tunefarm_workers.device.drift_detector import RECHECK_S, DriftDetector
from tunefarm_workers.timing.device_arbiter import DeviceArbiter

_ANSWER_S = 30.0
_QUARANTINE_CHECK_S = 2.0


class WatchOwner(Protocol):
    """The lane that the watch belongs to."""

    @property
    def device_arbiter(self) -> DeviceArbiter:
        """Grants the device."""

    @property
    def loop(self) -> EventLoop:
        """Receives the child's messages."""


class DeviceWatch:
    """One child that holds the compiled reference kernels.

    Use ``identify`` and ``code_generator`` before the lane's loop starts; ``join`` then adds the watch to the loop.
    """

    def __init__(self, fork_server: ForkServer, limits: Limits, threads: int, check_every_s: float) -> None:
        self._check_every_s = check_every_s
        self._drift = DriftDetector()
        self._is_claimed = False
        self.last_check: ReferenceCheck | None = None
        self._due_s = time.monotonic() + check_every_s
        self._alive = True
        self._fork_server = fork_server
        self._limits = limits
        self._threads = threads
        self.child: Child = self._fork()
        self.code_generator = DeviceChild.model_validate_json(self._answer()).code_generator
        self._owner: WatchOwner | None = None
        self._on_verdict: Callable[[bool], None] = lambda _: None

    def _fork(self) -> Child:
        return self._fork_server.fork(
            "tunefarm_workers.device.reference_kernels:watch",
            str(self._threads).encode(),
            limits=self._limits,
            confinement=Confinement.strict(may_pin_threads=True),
        )

    @property
    def channel(self) -> Channel:
        """The channel of the child."""
        return self.child.channel

    def identify(self, known: Device | None) -> Device:
        """Return the device: ``known`` if it is this one, whose times then are the baseline, otherwise timed now."""
        identity = cpu_identity()
        if known is not None and known.fingerprint == host_fingerprint(identity):
            self._drift = DriftDetector(known.reference, is_remembered=True)
            return known
        with suppress(ChannelClosed, TimeoutError):  # the child is dead; reading its answer raises
            self._ask("calibrate")
        baseline = ReferenceKernelTimes.model_validate_json(self._answer())
        self._drift = DriftDetector(baseline)
        return device_of(identity, baseline, known)

    def join(self, owner: WatchOwner, on_verdict: Callable[[bool], None]) -> None:
        """Become a conversation of a lane's loop. ``on_verdict`` receives whether the device can be trusted."""
        self._owner = owner
        self._on_verdict = on_verdict

    def look_now(self) -> None:
        """Check the device as soon as it is free."""
        self._due_s = min(self._due_s, time.monotonic())

    def tick(self, now_s: float) -> None:
        """Claim the device when a check is due."""
        if self._alive and self._owner is not None and not self._is_claimed and now_s >= self._due_s:
            self._is_claimed = True
            self._owner.device_arbiter.claim(self)

    def go(self) -> None:
        """Start a check: the device is granted."""
        self.child.resume()
        with suppress(ChannelClosed, TimeoutError):
            self._ask("check")

    def received(self, message: bytes) -> None:
        """Compare the times with the baseline."""
        self.child.stop()  # its kernels' threads would spin beside the next kernel
        self._end_check()
        try:
            now = ReferenceKernelTimes.model_validate_json(message)
        except ValueError:
            return
        self.last_check = ReferenceCheck(times=now, checked_at=utc_now())
        is_sure, drifted = self._drift.checked(now), self._drift.drifted
        wait_s = _QUARANTINE_CHECK_S if drifted else self._check_every_s
        self._due_s = time.monotonic() + min(wait_s if is_sure else RECHECK_S, self._check_every_s)
        if is_sure:
            self._on_verdict(not drifted)

    def ended(self) -> None:
        """Replace the child. If that fails, end any quarantine, because no further check could end it."""
        self._end_check()
        assert self._owner is not None, "only what is listened to ends"
        self.child.close()
        try:
            self.child = self._fork()
            self._owner.loop.listen(self)
            self._due_s = time.monotonic() + _QUARANTINE_CHECK_S
        except ForkFailed:
            self._alive = False
            self._on_verdict(True)

    def close(self) -> None:
        """End the child."""
        self.child.close()

    def _end_check(self) -> None:
        self._is_claimed = False
        if self._owner is not None:
            self._owner.device_arbiter.release(self)

    def _ask(self, depth: str) -> None:
        request = KernelRequest(depth="calibrate" if depth == "calibrate" else "check")
        self.child.channel.send(request.model_dump_json().encode(), timeout_s=1.0)

    def _answer(self) -> bytes:
        try:
            return self.child.channel.receive(timeout_s=_ANSWER_S)
        except (ChannelClosed, TimeoutError) as error:
            raise ForkFailed("server_lost", f"reference kernels do not run: {self.child.output()}") from error
