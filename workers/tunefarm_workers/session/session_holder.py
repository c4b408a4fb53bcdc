"""Keeps one session with the device: begins it, hands candidates to it, and notices when it is over."""

import time
from typing import TYPE_CHECKING

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
from tunefarm_workers.session.session_attempt import SessionAttempt

if TYPE_CHECKING:
    from tunefarm_workers.session.session_lane import SessionLane

_CHECK_S = 30.0


class SessionHolder:
    """A conversation with the session's child, on the lane's thread. At most one session lives at a time."""

    def __init__(
        self,
        zygote: ForkServer,
        access: DeviceAccess,
        loop: EventLoop,
        health: DeviceHealth,
        references: SharedMemory,
        owner: "SessionLane",
    ) -> None:
        self.health = health
        self._zygote = zygote
        self._access = access
        self._loop = loop
        self._references = references
        self._owner = owner
        self._session: DeviceSession | None = None
        self._task: OpenTask | None = None
        """Whose inputs the session has."""
        self._attempt: SessionAttempt | None = None
        self._checks_alone = False
        self._doing = "idle"
        self._since_s = 0.0
        self.deadline_s: float | None = None

    @property
    def child(self) -> Child:
        """The child that is listened to."""
        assert self._session is not None, "nothing is listened to without a session"
        return self._session.child

    @property
    def channel(self) -> Channel:
        """Where the child speaks."""
        return self.child.channel

    def run(self, attempt: SessionAttempt) -> None:
        """Run a candidate as soon as there is a session that has its task's inputs."""
        self._attempt = attempt
        now_s = time.monotonic()
        needed_s = attempt.limit_s + self._access.run_allowance_s
        if self._session is not None and (self._task is not attempt.task or self._session.is_worn(now_s, needed_s)):
            self._end()
        if self._session is None:
            self._open(attempt.task)
        else:
            self._next_step()

    def check(self) -> None:
        """Time the reference kernels in a session of their own, with no candidate at hand."""
        self._end()
        self._checks_alone = True
        self._open(None)

    def abandon(self, attempt: SessionAttempt) -> None:
        """Forget a candidate that is over; if it was running, its session ends with it."""
        if self._attempt is attempt:
            self._attempt = None
            self._end()

    def drop_idle(self, exploration_id: str) -> None:
        """End the session of an exploration that is closed."""
        if self._attempt is None and self._task is not None and self._task.order.exploration_id == exploration_id:
            self._end()

    def give_way(self) -> None:
        """End the session, for somebody else who has the device wants one of his own."""
        if self._attempt is None:
            self._end()

    def tick(self, now_s: float) -> None:
        """End what takes too long."""
        if self._session is None or self.deadline_s is None or now_s < self.deadline_s:
            return
        if self._doing == "running":
            message = f"It was running for more than {self.deadline_s - self._since_s:.2f} s."
            self._over(TrialFailure(reason=FailureReason.RUN_TIMEOUT, message=message))
        else:
            self._away(f"It took more than {self.deadline_s - self._since_s:.0f} s.", lost=False)

    def received(self, message: bytes) -> None:
        """Go on with what the child said."""
        assert self._session is not None, "nothing is listened to without a session"
        try:
            if self._session.takes(message):
                return
            self._session.is_busy = False
            said = from_session.validate_json(message)
        except ValueError:
            self._over(_crash("The child that holds the device sent something that is no message."))
            return
        if isinstance(said, DeviceGone):
            self._away(said.message, lost=self._doing == "running")
        elif isinstance(said, SessionReady) and self._doing == "reaching":
            self.health.reached()
            self._next_step()
        elif isinstance(said, ReferenceTimes) and self._doing == "checking":
            self._checked(said)
        elif isinstance(said, SessionRan) and self._doing == "running":
            self._done(said)
        elif isinstance(said, Broken):
            self._broke(said)
        else:
            self._over(_crash(f"The child said {said.kind} while it was {self._doing}."))

    def ended(self) -> None:
        """The child died: of the candidate it ran, unless somebody killed it."""
        assert self._session is not None, "nothing is listened to without a session"
        failure = self._session.failure_of_end(self._doing)
        if self._doing == "running" and failure.reason is not FailureReason.DEVICE_LOST:
            self._over(failure)
        else:
            self._away(failure.message, lost=self._doing == "running")

    def close(self) -> None:
        """End the session. The loop's thread must have ended."""
        if self._session is not None:
            self._session.close()
        self._session = None
        self._references.close()

    def _open(self, task: OpenTask | None) -> None:
        """Begin a session with the inputs of ``task``, or with none."""
        try:
            self._session = DeviceSession(self._zygote, self._access, task)
        except ForkFailed as error:
            if not self._zygote.alive:
                raise
            self._away(f"no child could be forked: {error}", lost=False)
            return
        self._task = task
        self._do("reaching", self._access.reach_s)
        self._loop.listen(self)

    def _next_step(self) -> None:
        """Check the device when that is due, and run the candidate."""
        attempt, session = self._attempt, self._session
        if session is None or (attempt is None and not self._checks_alone):
            self._rest()
        elif attempt is None or self.health.check_due(time.monotonic()):
            self._do("checking", _CHECK_S)
            session.send(ReferenceRequest(depth="check"), [self._references.descriptor])
        else:
            session.candidates += 1
            # A kernel that hangs is given up before the device ends the session, which would look like an error of it.
            limit_s = min(attempt.limit_s + self._access.run_allowance_s, session.left_s(time.monotonic()))
            self._do("running", limit_s)
            attempt.start(session)

    def _checked(self, said: ReferenceTimes) -> None:
        now_s = time.monotonic()
        if self.health.checked(said.times, now_s):
            self._owner.device_in_order()
        if self._checks_alone:
            self._end()
            return
        if self.health.may_try(now_s):
            self._next_step()
            return
        attempt, self._attempt = self._attempt, None
        self._rest()
        if attempt is not None:
            self._owner.device_away(attempt, self.health.reason, ran=False)

    def _done(self, said: SessionRan) -> None:
        self.health.measured()
        attempt, self._attempt = self._attempt, None
        self._rest()
        if attempt is not None:
            self._owner.ran(attempt, said)

    def _broke(self, said: Broken) -> None:
        """A kernel failed, or the check did. Only a wrong result leaves the session in a state to go on."""
        if self._doing == "checking":
            self._away(f"its reference kernels do not run: {said.message}", lost=False)
            return
        failure = TrialFailure(reason=said.reason, message=said.message[:4000])
        if said.reason is not FailureReason.WRONG_RESULT:
            self._over(failure)
            return
        self.health.measured()
        attempt, self._attempt = self._attempt, None
        self._rest()
        if attempt is not None:
            self._owner.ran(attempt, failure)

    def _over(self, failure: TrialFailure) -> None:
        """The candidate failed, and the session with it: the next one begins afresh."""
        attempt, self._attempt = self._attempt, None
        self._end()
        if attempt is not None:
            self._owner.ran(attempt, failure)

    def _away(self, message: str, *, lost: bool) -> None:
        attempt, self._attempt = self._attempt, None
        self._end()
        now_s = time.monotonic()
        if lost:
            self.health.lost(now_s, message)
        else:
            self.health.unreachable(now_s, message)
        if attempt is not None:
            self._owner.device_away(attempt, message, ran=lost)

    def _do(self, doing: str, limit_s: float) -> None:
        self._doing = doing
        self._since_s = time.monotonic()
        self.deadline_s = self._since_s + limit_s

    def _rest(self) -> None:
        self._doing = "idle"
        self.deadline_s = None

    def _end(self) -> None:
        if self._session is not None:
            self._loop.forget(self)
            self._session.close()
        self._session = None
        self._rest()
        if self._checks_alone:
            self._checks_alone = False
            self._owner.check_ended()


def _crash(message: str) -> TrialFailure:
    return TrialFailure(reason=FailureReason.CRASH, message=message)
