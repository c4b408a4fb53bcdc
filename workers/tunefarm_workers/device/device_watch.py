"""Times the reference kernels of this host's device, at the start and now and then, and notices when it drifts."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.tuning.device import Device, ReferenceKernelTimes
from tunefarm_workers.conversation.event_loop import EventLoop
from tunefarm_workers.conversation.messages import DeviceChild, KernelRequest
from tunefarm_workers.device.cpu_identity import cpu_identity, host_fingerprint
from tunefarm_workers.device.device_identity import device_of
from tunefarm_workers.device.drift import RECHECK_S, Drift
from tunefarm_workers.timing.device_arbiter import DeviceArbiter

_ANSWER_S = 30.0
_QUARANTINE_CHECK_S = 2.0


class WatchOwner(Protocol):
    """What the watch needs of its lane."""

    @property
    def device_arbiter(self) -> DeviceArbiter:
        """Where to ask for the device."""

    @property
    def loop(self) -> EventLoop:
        """Where the child is listened to."""


class DeviceWatch:
    """One child that holds the compiled reference kernels.

    ``identify`` and ``code_generator`` are used before the lane's loop starts; then the watch is one of its
    conversations. ``on_verdict`` hears after each check whether the device can be trusted.
    """

    def __init__(self, zygote: ForkServer, limits: Limits, threads: int, check_every_s: float) -> None:
        self._check_every_s = check_every_s
        self._drift = Drift()
        self._asked = False
        self._due_s = time.monotonic() + check_every_s
        self._alive = True
        self._zygote = zygote
        self._limits = limits
        self._threads = threads
        self.child: Child = self._fork()
        self.code_generator = DeviceChild.model_validate_json(self._answer()).code_generator
        self._owner: WatchOwner | None = None
        self._on_verdict: Callable[[bool], None] = lambda _: None

    def _fork(self) -> Child:
        return self._zygote.fork(
            "tunefarm_workers.device.reference_kernels:watch",
            str(self._threads).encode(),
            limits=self._limits,
            confinement=Confinement.strict(may_pin_threads=True),
        )

    @property
    def channel(self) -> Channel:
        """Where the child speaks."""
        return self.child.channel

    def identify(self, known: Device | None) -> Device:
        """The device, timed anew unless it is ``known`` already; that is held against the times it was known with."""
        identity = cpu_identity()
        if known is not None and known.fingerprint == host_fingerprint(identity):
            self._drift = Drift(known.reference, is_remembered=True)
            return known
        with suppress(ChannelClosed, TimeoutError):  # then it is dead, and its answer tells
            self._ask("calibrate")
        baseline = ReferenceKernelTimes.model_validate_json(self._answer())
        self._drift = Drift(baseline)
        return device_of(identity, baseline, known)

    def join(self, owner: WatchOwner, on_verdict: Callable[[bool], None]) -> None:
        """Become a conversation of a lane's loop."""
        self._owner = owner
        self._on_verdict = on_verdict

    def look_now(self) -> None:
        """Check the device as soon as it is free, whenever the next check was due."""
        self._due_s = min(self._due_s, time.monotonic())

    def tick(self, now_s: float) -> None:
        """Ask for the device when a check is due."""
        if self._alive and self._owner is not None and not self._asked and now_s >= self._due_s:
            self._asked = True
            self._owner.device_arbiter.claim(self)

    def go(self) -> None:
        """The device is quiet and ours."""
        self.child.resume()
        with suppress(ChannelClosed, TimeoutError):
            self._ask("check")

    def received(self, message: bytes) -> None:
        """Compare the present times with the baseline."""
        self.child.stop()  # its kernels' threads would spin beside whoever has the device next
        self._end_check()
        try:
            now = ReferenceKernelTimes.model_validate_json(message)
        except ValueError:
            return
        is_sure, drifted = self._drift.checked(now), self._drift.drifted
        wait_s = _QUARANTINE_CHECK_S if drifted else self._check_every_s
        self._due_s = time.monotonic() + min(wait_s if is_sure else RECHECK_S, self._check_every_s)
        if is_sure:
            self._on_verdict(not drifted)

    def ended(self) -> None:
        """The child is gone. Another takes its place, and where there can be none, nobody is in quarantine for ever."""
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
        self._asked = False
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
