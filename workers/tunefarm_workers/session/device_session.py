"""The child that holds a device, and requests to it."""

import math
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from tunefarm_sandbox.channel.channel import ChannelClosed
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_workers.conversation.child_answer import ChildFailed, OnWait, answer_of
from tunefarm_workers.conversation.child_death import failure_of_death, was_killed
from tunefarm_workers.conversation.messages import Broken, Round
from tunefarm_workers.correctness.output_transfer import OutputIntake
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.session.device.session_messages import (
    DeviceGone,
    Entered,
    EnterRequest,
    ReferenceRequest,
    ReferenceTimes,
    RoundRequest,
    RunRequest,
    SessionOrder,
    SessionRan,
    SessionReady,
    from_session,
)
from tunefarm_workers.session.device_access import DeviceAccess

_SEND_S = 5.0
_GONE_S = 1.0

Request = RunRequest | EnterRequest | RoundRequest | ReferenceRequest
Answer = SessionReady | DeviceGone | SessionRan | Entered | Round | ReferenceTimes | Broken


class DeviceLost(ChildFailed):
    """Raised when the device cannot be reached or is lost."""

    def __init__(self, message: str) -> None:
        super().__init__(TrialFailure(reason=FailureReason.DEVICE_LOST, message=message[:4000]))


class DeviceSession:
    """Forks the child and exchanges messages with it. The child is confined and may be ended at any time."""

    def __init__(self, fork_server: ForkServer, access: DeviceAccess, task: OpenTask | None) -> None:
        """Begin to connect to the device and to copy the inputs of ``task`` there. Raises ``ForkFailed``."""
        self._access = access
        self.began_s = time.monotonic()
        self.candidates = 0
        self._outputs = OutputIntake([])
        self.is_busy = True
        """Whether the child is using the device or connecting to it."""
        num_cores = access.num_cores if task is None else min(access.num_cores, task.order.num_cores)
        order = SessionOrder(
            task=None if task is None else task.task_order(),
            num_cores=num_cores,
            flush_bytes=access.flush_bytes,
            connection=access.connection,
        )
        self.child: Child = fork_server.fork(
            access.entry,
            order.model_dump_json().encode(),
            limits=access.limits,
            confinement=access.confinement,
        )

    def must_be_replaced(self, now_s: float, needed_s: float) -> bool:
        """Whether to replace it before it runs another candidate, which may take ``needed_s``."""
        if self.candidates >= self._access.session_candidates:
            return True
        return needed_s > self.remaining_s(now_s) and self.candidates > 0

    def remaining_s(self, now_s: float) -> float:
        """Seconds until the device ends the session; infinite if it never does."""
        longest_s = self._access.session_s
        return math.inf if longest_s is None else longest_s - (now_s - self.began_s)

    def send(self, request: Request, descriptors: Sequence[int] = (), outputs: OutputIntake | None = None) -> None:
        """Send a request whose answer follows ``outputs``. A dead child is noticed when its answer is awaited."""
        self.is_busy = True
        self._outputs = outputs or OutputIntake([])
        with suppress(ChannelClosed, TimeoutError):
            self.child.channel.send(request.model_dump_json().encode(), descriptors, timeout_s=_SEND_S)

    def is_output(self, message: bytes) -> bool:
        """Whether a message is a part of the outputs before an answer. Raises ``ValueError`` if it is unexpected."""
        return self._outputs.take(message)

    def wait_until_ready(self, on_wait: OnWait) -> None:
        """Wait until the device is connected. Raises ``DeviceLost``, or ``ChildFailed`` if ``on_wait`` cancels."""
        try:
            answer = self._answer(self._access.reach_s, "reaching the device", on_wait)
        except ChildFailed as failed:
            if failed.failure.reason is FailureReason.CANCELED:
                raise
            raise DeviceLost(f"{self._access.name} was not reached: {failed.failure.message}") from failed
        if not isinstance(answer, SessionReady):
            raise DeviceLost(f"{self._access.name} was not reached: {_text_of(answer)}")

    def ask(
        self,
        request: Request,
        descriptors: Sequence[int],
        timeout_s: float,
        on_wait: OnWait,
        outputs: OutputIntake | None = None,
    ) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            DeviceLost: the device is lost, or the child was killed, which is no fault of what it ran.
            ChildFailed: the child died or took too long.
        """
        self.send(request, descriptors, outputs)
        try:
            answer = self._answer(timeout_s, "running", on_wait)
        except ChildFailed as failed:
            if failed.may_be_tried_again:
                raise DeviceLost(failed.failure.message) from failed
            raise
        if isinstance(answer, DeviceGone):
            raise DeviceLost(answer.message)
        return answer

    def failure_of_end(self, doing: str) -> TrialFailure:
        """Why the child ended without an answer. Being killed counts as a lost device, not as the candidate's crash."""
        death = self.child.exit(timeout_s=_GONE_S)
        failure = failure_of_death(death, doing, self.child.output())
        if was_killed(death) and failure.reason is FailureReason.CRASH:
            return failure.model_copy(update={"reason": FailureReason.DEVICE_LOST})
        return failure

    def close(self) -> None:
        """End the child and wait until it is gone: a device may accept one at a time. Idempotent.

        A board's RPC server may not survive a connection that breaks within a call. With ``linger_s``, a busy child
        therefore ends by itself, when the call returns and it finds its channel closed.
        """
        if self.is_busy and self._access.linger_s > 0 and self.child.exit() is None:
            self.is_busy = False
            self.child.channel.close()
            threading.Thread(target=self._end_later, name="device-session", daemon=True).start()
            return
        self._end()

    def _end_later(self) -> None:
        self.child.exit(self._access.linger_s)
        self._end()

    def _end(self) -> None:
        self.child.kill()
        self.child.exit(_GONE_S)
        self.child.close()

    def _answer(self, timeout_s: float, doing: str, on_wait: OnWait) -> Answer:
        deadline_s = time.monotonic() + timeout_s
        try:
            while self.is_output(reply := answer_of(self.child, deadline_s - time.monotonic(), doing, on_wait)):
                pass
            self.is_busy = False
            return from_session.validate_json(reply)
        except ValueError as error:
            message = "The child that holds the device sent an invalid message."
            raise ChildFailed(TrialFailure(reason=FailureReason.CRASH, message=message)) from error


def _text_of(answer: Answer) -> str:
    return answer.message if isinstance(answer, DeviceGone | Broken) else f"its child sent {answer.kind!r}"
