"""Owns the sessions with a device: opens them, runs candidates in one of them, and handles their end."""

import time
from typing import Protocol

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_workers.conversation.event_loop import EventLoop
from tunefarm_workers.conversation.messages import Broken
from tunefarm_workers.conversation.shared_memory import SharedMemory
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.session.device.session_messages import (
    DeviceGone,
    ReferenceRequest,
    ReferenceTimes,
    SessionRan,
    SessionReady,
    from_session,
)
from tunefarm_workers.session.device_access import DeviceAccess
from tunefarm_workers.session.device_health import DeviceHealth
from tunefarm_workers.session.device_session import DeviceSession
from tunefarm_workers.session.parked_sessions import ParkedSessions
from tunefarm_workers.session.session_attempt import SessionAttempt

_CHECK_S = 30.0


class SessionOwner(Protocol):
    """The lane of the device."""

    def ran(self, attempt: SessionAttempt, reply: SessionRan | TrialFailure) -> None:
        """Free the device and pass the result of the session to ``attempt``."""

    def device_away(self, attempt: SessionAttempt, message: str, *, ran: bool) -> None:
        """Handle the loss of the device under ``attempt``. ``ran``: whether its candidate was running."""

    def device_in_order(self) -> None:
        """Trust the measurements so far: the reference kernels took their usual time."""

    def check_ended(self) -> None:
        """Free the device after a check without a candidate."""


class SessionHolder:
    """A conversation with the session's child, on the lane's thread. At most one session at a time does something.

    To run a candidate, it opens a session with the inputs of its task unless one is open ("reaching"), times the
    reference kernels if a check is due ("checking"), and runs the candidate ("running"). The session then stays open
    ("idle"), and is parked when a candidate of another task runs. Any failure but a wrong result closes it, because the
    child or the device may be damaged.
    """

    def __init__(
        self,
        fork_server: ForkServer,
        access: DeviceAccess,
        loop: EventLoop,
        health: DeviceHealth,
        references: SharedMemory,
        owner: SessionOwner,
    ) -> None:
        self.health = health
        self._fork_server = fork_server
        self._access = access
        self._loop = loop
        self._references = references
        self._owner = owner
        self._parked = ParkedSessions(access.parked_sessions)
        self._session: DeviceSession | None = None
        self._task: OpenTask | None = None
        """The task whose inputs are on the device."""
        self._attempt: SessionAttempt | None = None
        self._is_lone_check = False
        self._step = "idle"
        self._step_began_s = 0.0
        self.deadline_s: float | None = None

    @property
    def child(self) -> Child:
        """The session's child."""
        assert self._session is not None, "only a session sends messages"
        return self._session.child

    @property
    def channel(self) -> Channel:
        """The child's channel."""
        return self.child.channel

    def run(self, attempt: SessionAttempt) -> None:
        """Run a candidate in a session with the inputs of its task."""
        self._attempt = attempt
        self._turn_to(attempt.task)
        needed_s = attempt.limit_s + self._access.run_allowance_s
        if self._session is not None and self._session.must_be_replaced(time.monotonic(), needed_s):
            self._end()
        if self._session is None:
            self._open(attempt.task)
        else:
            self._next_step()

    def check(self) -> None:
        """Time the reference kernels in a session of their own, without a candidate."""
        self._end()
        self._parked.end_all()
        self._is_lone_check = True
        self._open(None)

    def abandon(self, attempt: SessionAttempt) -> None:
        """Drop a candidate that ended, and the session in which it was running."""
        if self._attempt is attempt:
            self._attempt = None
            self._end()

    def end_idle_of(self, exploration_id: str) -> None:
        """End idle sessions that have the inputs of this exploration."""
        self._parked.end_of(exploration_id)
        if self._attempt is None and self._task is not None and self._task.order.exploration_id == exploration_id:
            self._end()

    def end_idle(self) -> None:
        """End idle sessions: the owner of the device opens its own."""
        self._parked.end_all()
        if self._attempt is None:
            self._end()

    def tick(self, now_s: float) -> None:
        """End the session if its present step takes too long."""
        if self._session is None or self.deadline_s is None or now_s < self.deadline_s:
            return
        if self._step == "running":
            message = f"It was running for more than {self.deadline_s - self._step_began_s:.2f} s."
            self._fail(TrialFailure(reason=FailureReason.RUN_TIMEOUT, message=message))
        else:
            self._lose_device(f"It took more than {self.deadline_s - self._step_began_s:.0f} s.", lost=False)

    def received(self, message: bytes) -> None:
        """Handle a message of the child."""
        assert self._session is not None, "only a session sends messages"
        try:
            if self._session.is_output(message):
                return
            self._session.is_busy = False
            reply = from_session.validate_json(message)
        except ValueError:
            self._fail(_crash("The child that holds the device sent an invalid message."))
            return
        if isinstance(reply, DeviceGone):
            self._lose_device(reply.message, lost=self._step == "running")
        elif isinstance(reply, SessionReady) and self._step == "reaching":
            self.health.reached()
            self._next_step()
        elif isinstance(reply, ReferenceTimes) and self._step == "checking":
            self._checked(reply)
        elif isinstance(reply, SessionRan) and self._step == "running":
            self._finish(reply)
        elif isinstance(reply, Broken):
            self._handle_failure(reply)
        else:
            self._fail(_crash(f"The child sent {reply.kind!r} while it was {self._step}."))

    def ended(self) -> None:
        """Blame the running candidate for the child's death, unless it was killed."""
        assert self._session is not None, "only a session ends"
        failure = self._session.failure_of_end(self._step)
        if self._step == "running" and failure.reason is not FailureReason.DEVICE_LOST:
            self._fail(failure)
        else:
            self._lose_device(failure.message, lost=self._step == "running")

    def close(self) -> None:
        """End the sessions. The loop's thread must have ended."""
        self._parked.end_all()
        if self._session is not None:
            self._session.close()
        self._session = None
        self._references.close()

    def _turn_to(self, task: OpenTask) -> None:
        """Park the open session if it is of another task, and take that of ``task`` if it is parked."""
        if self._session is not None and self._task is task:
            return
        following = self._parked.take(task)
        if self._session is not None:
            self._loop.forget(self)
            assert self._task is not None, "a session without a task ends with its check"
            self._parked.park(self._task, self._session)
        self._session, self._task = following, task
        if following is not None:
            self._loop.listen(self)

    def _open(self, task: OpenTask | None) -> None:
        """Open a session with the inputs of ``task``, or without inputs."""
        try:
            self._session = DeviceSession(self._fork_server, self._access, task)
        except ForkFailed as error:
            if not self._fork_server.alive:
                raise
            self._lose_device(f"no child could be forked: {error}", lost=False)
            return
        self._task = task
        self._enter_step("reaching", self._access.reach_s)
        self._loop.listen(self)

    def _next_step(self) -> None:
        """Check the device if that is due, else run the candidate."""
        attempt, session = self._attempt, self._session
        if session is None or (attempt is None and not self._is_lone_check):
            self._become_idle()
        elif attempt is None or self.health.check_due(time.monotonic()):
            self._enter_step("checking", _CHECK_S)
            session.send(ReferenceRequest(depth="check"), [self._references.descriptor])
        else:
            session.candidates += 1
            # A hanging kernel must time out before the device ends the session, which would count as a lost device.
            limit_s = min(attempt.limit_s + self._access.run_allowance_s, session.remaining_s(time.monotonic()))
            self._enter_step("running", limit_s)
            attempt.start(session)

    def _checked(self, reply: ReferenceTimes) -> None:
        now_s = time.monotonic()
        if self.health.checked(reply.times, now_s):
            self._owner.device_in_order()
        if self._is_lone_check:
            self._end()
            return
        if self.health.may_try(now_s):
            self._next_step()
            return
        attempt, self._attempt = self._attempt, None
        self._become_idle()
        if attempt is not None:
            self._owner.device_away(attempt, self.health.reason, ran=False)

    def _finish(self, result: SessionRan | TrialFailure) -> None:
        self.health.measured()
        attempt, self._attempt = self._attempt, None
        self._become_idle()
        if attempt is not None:
            self._owner.ran(attempt, result)

    def _handle_failure(self, reply: Broken) -> None:
        """Handle a failed kernel or check. The session stays open only after a wrong result."""
        if self._step == "checking":
            self._lose_device(f"its reference kernels do not run: {reply.message}", lost=False)
            return
        failure = TrialFailure(reason=reply.reason, message=reply.message[:4000])
        if reply.reason is FailureReason.WRONG_RESULT:
            self._finish(failure)
        else:
            self._fail(failure)

    def _fail(self, failure: TrialFailure) -> None:
        """Fail the candidate and end the session."""
        attempt, self._attempt = self._attempt, None
        self._end()
        if attempt is not None:
            self._owner.ran(attempt, failure)

    def _lose_device(self, message: str, *, lost: bool) -> None:
        """End all sessions, and tell the owner. One that did not open is tried again without the parked ones."""
        was_reaching = self._step == "reaching"
        if self._parked.end_all() and was_reaching:
            self._end()
            self._open(self._task)
            return
        attempt, self._attempt = self._attempt, None
        self._end()
        now_s = time.monotonic()
        if lost:
            self.health.lost(now_s, message)
        else:
            self.health.unreachable(now_s, message)
        if attempt is not None:
            self._owner.device_away(attempt, message, ran=lost)

    def _enter_step(self, step: str, limit_s: float) -> None:
        self._step = step
        self._step_began_s = time.monotonic()
        self.deadline_s = self._step_began_s + limit_s

    def _become_idle(self) -> None:
        self._step = "idle"
        self.deadline_s = None

    def _end(self) -> None:
        if self._session is not None:
            self._loop.forget(self)
            self._session.close()
        self._session = None
        self._become_idle()
        if self._is_lone_check:
            self._is_lone_check = False
            self._owner.check_ended()


def _crash(message: str) -> TrialFailure:
    return TrialFailure(reason=FailureReason.CRASH, message=message)
