"""Confirms a reference before the first candidate is rejected by it.

A wrong output may mean a wrong schedule, or a reference that was corrupted by another process or by failing hardware,
which would reject every correct schedule.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.failure import FailureReason
from tunefarm_workers.conversation.argument import Argument
from tunefarm_workers.conversation.event_loop import ChildConversation
from tunefarm_workers.conversation.messages import ComparisonPlan, Compiled, from_comparison
from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.correctness.output_layout import OutputLayout
from tunefarm_workers.correctness.output_samples import OutputSamples
from tunefarm_workers.correctness.output_transfer import OutputIntake
from tunefarm_workers.correctness.referee import Referee


class Listener(Protocol):
    """Receives messages of children: a lane or its loop."""

    def listen(self, conversation: ChildConversation) -> None:
        """Start listening to a child."""

    def forget(self, conversation: ChildConversation) -> None:
        """Stop listening to a child."""


class UntunedRun:
    """A conversation with a child that runs the untuned function as if it were a candidate."""

    def __init__(
        self, server: ForkServer, layout: OutputLayout, limits: Limits, disputed: Mapping[int, Collection[int]]
    ) -> None:
        """Fork the child; of a long function it computes samples with ``disputed`` elements. Raises ``ForkFailed``."""
        self._samples = OutputSamples.drawn(layout, disputed)
        self._leading: int | None = None
        self.outputs = OutputIntake([layout] * INPUT_SETS)
        self.is_over = False
        self.has_outputs = False
        self.broke_rules = False
        """Whether the function wrote outside of its outputs."""
        plan = ComparisonPlan(traces=(None,), cold_cache=False, side_by_side=False, samples=self._samples.elements)
        self.child: Child = server.fork(
            "tunefarm_workers.child.comparison_child:run",
            plan.model_dump_json().encode(),
            limits=limits,
            confinement=Confinement.strict(),
        )

    @property
    def channel(self) -> Channel:
        """The channel of the child."""
        return self.child.channel

    def received(self, message: bytes) -> None:
        """Handle outputs, or the message that all were sent."""
        try:
            if self.outputs.take(message):
                return
            step = from_comparison.validate_json(message)
        except ValueError:
            self.is_over = True
            return
        self.is_over = True
        if isinstance(step, Compiled):
            sent = all(self.outputs.holds(number) for number in range(INPUT_SETS))
            self.has_outputs = step.failure is None and sent
            self._leading = step.leading
            self.broke_rules = step.failure is not None and step.failure.reason is FailureReason.WRONG_RESULT

    def ended(self) -> None:
        """Give up: the child ended early."""
        self.is_over = True

    def error_by(self, referee: Referee) -> float:
        """Return the error of its outputs, as a multiple of the allowed one."""
        outputs = ((number, self.outputs.arrays(number)) for number in range(INPUT_SETS))
        if self._leading is None:
            return referee.judge(outputs)
        return referee.judge_samples(self._samples, self._leading, outputs)


class ReferenceConfirmation:
    """Recomputes the reference in a fresh child, and judges the untuned function as a candidate.

    The reference is distrusted if the second one differs, or if the untuned function fails. A failure for other reasons
    than its result, such as a timeout, is ignored.
    """

    def __init__(
        self,
        server: ForkServer,
        arguments: tuple[Argument, ...],
        first: Referee,
        limits: Limits,
        listener: Listener,
        on_end: Callable[[str], None],
    ) -> None:
        """``on_end`` receives why ``first`` cannot be trusted, or an empty text. Raises ``ForkFailed``."""
        self._first = first
        self._listener = listener
        self._on_end = on_end
        self._began_s: float | None = None
        self._is_over = False
        self._again = Referee(server, arguments, limits, self._reference_spoke)
        try:
            layout = OutputLayout.of(tuple(argument.tensor for argument in arguments))
            self._untuned = UntunedRun(server, layout, limits, first.disputed)
        except ForkFailed:
            self._again.close()
            raise
        listener.listen(self._again)
        listener.listen(self._untuned)

    def tick(self, moving_s: float, limit_s: float) -> bool:
        """Finish once everything is known; whether the fork server is lost, so that it never will be.

        ``limit_s`` bounds each call; ``moving_s`` is a clock that excludes pauses of children.
        """
        if self._is_over:
            return False
        self._began_s = moving_s if self._began_s is None else self._began_s
        self._again.check_deadline(moving_s, limit_s)
        if moving_s - self._began_s > INPUT_SETS * limit_s:
            self._untuned.is_over = True
        again_is_over = self._again.doubt is not None or self._again.knows(INPUT_SETS)
        if again_is_over and self._untuned.is_over and self._first.knows(INPUT_SETS):
            self._is_over = True
            for conversation in self.conversations:
                self._listener.forget(conversation)
            fault = self._fault()
            self.close()
            self._on_end(fault)
        return self._again.task_process_is_lost

    @property
    def conversations(self) -> tuple[ChildConversation, ...]:
        """The conversations that are listened to until the end."""
        return self._again, self._untuned

    def close(self) -> None:
        """End the children; idempotent."""
        self._is_over = True
        self._again.close()
        self._untuned.child.close()

    def _reference_spoke(self) -> None:
        """Listen to the present child, which may be a replacement."""
        self._listener.forget(self._again)
        if not self._again.is_done and not self._again.task_process_is_lost:
            self._listener.listen(self._again)

    def _fault(self) -> str:
        if self._again.doubt is not None:
            return f"it cannot be computed a second time: {self._again.doubt.value}. {self._again.doubt_text}".strip()
        difference = self._first.difference_from(self._again)
        if difference > 1.0:
            return f"computed twice, it differs by {difference:.3g} times the tolerance."
        if self._untuned.broke_rules:
            return "the untuned function, run as a candidate, writes outside of its outputs."
        if not self._untuned.has_outputs:
            return ""
        error = self._untuned.error_by(self._first)
        if error > 1.0:
            return f"the untuned function itself, run as a candidate, is off by {error:.3g} times the tolerance."
        return ""
