"""Times the reference kernels of this host's device, at the start and now and then, and notices when it drifts."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from tunefarm_sandbox.channel import ChannelClosed
from tunefarm_sandbox.child import Child
from tunefarm_sandbox.confinement import Confinement
from tunefarm_sandbox.fork_server import ForkFailed, ForkServer
from tunefarm_sandbox.limits import Limits
from tunefarm_schemas.device import Device, ReferenceKernelTimes
from tunefarm_workers.cpu_identity import cpu_identity, host_fingerprint
from tunefarm_workers.device_identity import device_of
from tunefarm_workers.event_loop import Conversation
from tunefarm_workers.messages import DeviceChild, KernelRequest
from tunefarm_workers.quiet_device import QuietDevice

_ANSWER_S = 30.0
_BAND = 1.6
"""A reference kernel slower than its baseline by more than this is drift."""
_MEMORY_BAND = 3.0
"""The same for the copy, which all that shares the memory slows down."""
_CHECKS_TO_BE_SURE = 3
"""One slow check may be somebody else's moment, and one as usual a noisy device's luck; so many in a row are the
device's."""
_RECHECK_S = 0.2
_QUARANTINE_CHECK_S = 2.0


class WatchOwner(Protocol):
    """What the watch needs of its lane."""

    @property
    def quiet_device(self) -> QuietDevice:
        """Where to ask for the device."""

    def forget(self, conversation: Conversation) -> None:
        """Stop listening to the child."""


class DeviceWatch:
    """One child that holds the compiled reference kernels.

    ``identify`` and ``code_generator`` are used before the lane's loop starts; then the watch is one of its
    conversations. ``on_verdict`` hears after each check whether the device can be trusted.
    """

    def __init__(self, zygote: ForkServer, limits: Limits, threads: int, check_every_s: float) -> None:
        self._check_every_s = check_every_s
        self._baseline: ReferenceKernelTimes | None = None
        self._was_slower = False
        self._in_a_row = 0
        self._asked = False
        self._due_s = time.monotonic() + check_every_s
        self._alive = True
        self.drifted = False
        self.child: Child = zygote.fork(
            "tunefarm_workers.reference_kernels:watch",
            str(threads).encode(),
            limits=limits,
            confinement=Confinement.strict(),
        )
        self.code_generator = DeviceChild.model_validate_json(self._answer()).code_generator
        self._owner: WatchOwner | None = None
        self._on_verdict: Callable[[bool], None] = lambda _: None

    def identify(self, known: Device | None) -> Device:
        """The device, timed anew unless it is ``known`` already."""
        identity = cpu_identity()
        if known is not None and known.fingerprint == host_fingerprint(identity):
            return known
        with suppress(ChannelClosed, TimeoutError):  # then it is dead, and its answer tells
            self._ask("calibrate")
        self._baseline = ReferenceKernelTimes.model_validate_json(self._answer())
        return device_of(identity, self._baseline, known)

    def join(self, owner: WatchOwner, on_verdict: Callable[[bool], None]) -> None:
        """Become a conversation of a lane's loop."""
        self._owner = owner
        self._on_verdict = on_verdict

    def tick(self, now_s: float) -> None:
        """Ask for the device when a check is due."""
        if self._alive and self._owner is not None and not self._asked and now_s >= self._due_s:
            self._asked = True
            self._owner.quiet_device.claim(self)

    def go(self) -> None:
        """The device is quiet and ours."""
        with suppress(ChannelClosed, TimeoutError):
            self._ask("check")

    def received(self, message: bytes) -> None:
        """Compare the present times with the baseline."""
        self._end_check()
        try:
            now = ReferenceKernelTimes.model_validate_json(message)
        except ValueError:
            return
        self._baseline = now if self._baseline is None else self._baseline
        is_slower = _is_slower(now, self._baseline)
        self._in_a_row = self._in_a_row + 1 if is_slower == self._was_slower else 1
        self._was_slower = is_slower
        if self._in_a_row >= _CHECKS_TO_BE_SURE:
            self.drifted = is_slower
        is_sure = self.drifted == is_slower
        wait_s = _QUARANTINE_CHECK_S if self.drifted else self._check_every_s
        self._due_s = time.monotonic() + min(wait_s if is_sure else _RECHECK_S, self._check_every_s)
        if is_sure:
            self._on_verdict(not self.drifted)

    def ended(self) -> None:
        """The child is gone: drift is not watched any more."""
        self._alive = False
        self._end_check()

    def close(self) -> None:
        """End the child."""
        self.child.close()

    def _end_check(self) -> None:
        self._asked = False
        if self._owner is not None:
            self._owner.quiet_device.release(self)

    def _ask(self, depth: str) -> None:
        request = KernelRequest(depth="calibrate" if depth == "calibrate" else "check")
        self.child.channel.send(request.model_dump_json().encode(), timeout_s=1.0)

    def _answer(self) -> bytes:
        try:
            return self.child.channel.receive(timeout_s=_ANSWER_S)
        except (ChannelClosed, TimeoutError) as error:
            raise ForkFailed("server_lost", f"reference kernels do not run: {self.child.output()}") from error


def _is_slower(now: ReferenceKernelTimes, baseline: ReferenceKernelTimes) -> bool:
    return now.compute_s > _BAND * baseline.compute_s or now.bandwidth_s > _MEMORY_BAND * baseline.bandwidth_s
