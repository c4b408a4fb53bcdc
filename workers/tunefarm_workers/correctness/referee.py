"""Computes the reference of a task and compares candidates' outputs with it."""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_workers.conversation.argument import Argument
from tunefarm_workers.conversation.child_death import was_killed
from tunefarm_workers.conversation.messages import (
    ReferenceBroken,
    ReferenceFigures,
    ReferenceOrder,
    ReferenceStep,
    ReferenceTimed,
    from_reference,
)
from tunefarm_workers.correctness.element_type import is_floating
from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.correctness.output_layout import FIRST_SLOT, LAST_SLOT, OutputLayout, reference_slot
from tunefarm_workers.correctness.output_samples import OutputSamples
from tunefarm_workers.correctness.output_transfer import OutputIntake
from tunefarm_workers.correctness.tolerance import Array, OutputReference, all_finite, worst_error

_MAX_KILLS = 2
"""How often a killed child is replaced before its function is blamed."""


class Doubt(Enum):
    """Why results of a task cannot be verified."""

    NOT_FINITE = "it computes numbers that are not finite"
    FAILED = "it does not build or run"
    UNTRUSTED = "its reference cannot be trusted"


def slots_to_judge(sets: int, *, repeated_calls_agree: bool) -> list[tuple[int, int]]:
    """Which of the slots that a candidate fills are compared, each with the number of its set of inputs."""
    slots = [(FIRST_SLOT, 0)]
    if sets == INPUT_SETS:
        slots += [(LAST_SLOT + number, number) for number in range(1, INPUT_SETS)]
        if repeated_calls_agree:
            slots.append((LAST_SLOT, 0))
    return slots


class Referee:
    """Runs the untuned function in a child and compares outputs with the result.

    Once received, the reference exists only in this process's private memory, where no candidate can reach it.

    The child runs the function twice on each set of inputs: as written, and widened to float64. The difference shows
    the function's own rounding error, from which the tolerance for candidates follows. A set of inputs is known once
    both arrived. The widened form is optional: if it fails, takes too long or ends the child, the function as written
    is the only reference. If that fails as well, there is doubt, and no verdict.

    A conversation with that child: ``on_progress`` is called whenever another set of inputs is known or doubt arises.
    """

    def __init__(
        self,
        server: ForkServer,
        arguments: tuple[Argument, ...],
        limits: Limits,
        on_progress: Callable[[], None],
        on_figures: Callable[[ReferenceFigures], None] = lambda _: None,
    ) -> None:
        """``on_figures`` receives the function's build time and latency once they are known."""
        tensors = tuple(argument.tensor for argument in arguments)
        self._server = server
        self._limits = limits
        self._on_progress = on_progress
        self._on_figures = on_figures
        self._own = OutputLayout.of(tensors)
        self._double = OutputLayout.of(tensors, double=True)
        self._repeatable = not any(argument.tensor.is_output and argument.holds_input for argument in arguments)
        self._widen = any(is_floating(tensor.dtype) for tensor in self._own.tensors)
        self._steps: set[tuple[int, bool]] = set()
        self._references: dict[int, list[OutputReference]] = {}
        self.doubt: Doubt | None = None
        self.doubt_text = ""
        self.untuned_about_s: float | None = None
        """Approximate latency of the untuned function; None before it is timed, or if timing takes too long."""
        self.disputed: dict[int, set[int]] = {}
        """Elements of the only output that were found wrong, for each set of inputs."""
        self._timing_is_over = False
        self._silent_since_s: float | None = None
        self._kills = 0
        self.task_process_is_lost = False
        """Whether the fork server of the child is gone, so that no answer will come."""
        self.child: Child = self._fork()

    def _fork(self) -> Child:
        self._silent_since_s = None
        self._steps.clear()  # the new child sends what was not learnt yet again
        self._sent = OutputIntake([self._own] * INPUT_SETS + [self._double] * INPUT_SETS)
        return self._server.fork(
            "tunefarm_workers.child.reference:run",
            ReferenceOrder(sets=INPUT_SETS, widen=self._widen).model_dump_json().encode(),
            limits=self._limits,
            confinement=Confinement.strict(may_pin_threads=True),
        )

    @property
    def channel(self) -> Channel:
        """The channel of the child."""
        return self.child.channel

    @property
    def is_done(self) -> bool:
        """Whether no further message of the child is needed."""
        return self.doubt is not None or (self.knows(INPUT_SETS) and self._timing_is_over)

    def knows(self, sets: int) -> bool:
        """Whether the reference for the first ``sets`` sets of inputs is known."""
        return all(number in self._references for number in range(sets))

    def received(self, message: bytes) -> None:
        """Handle one step."""
        self._silent_since_s = None
        try:
            if self._sent.take(message):
                return
            step = from_reference.validate_json(message)
            if isinstance(step, ReferenceStep):
                self._done(step)
        except ValueError:
            self._doubt(Doubt.FAILED, "its process sent invalid data")
            return
        if isinstance(step, ReferenceFigures):
            self._on_figures(step)
            return
        if isinstance(step, ReferenceTimed):
            self.untuned_about_s = step.latency_s
            self._timing_is_over = True
            self._on_progress()
            return
        if isinstance(step, ReferenceBroken):
            self._broken(step)
        self._settle()

    def check_deadline(self, moving_s: float, limit_s: float) -> None:
        """Kill the child if it is silent for more than ``limit_s``. ``moving_s`` is a clock that excludes its pauses.

        A new child may still finish without the widened form, which takes longest.
        """
        if self.is_done or self.task_process_is_lost:
            return
        if self._silent_since_s is None:
            self._silent_since_s = moving_s
        if moving_s - self._silent_since_s <= limit_s:
            return
        self._silent_since_s = moving_s
        if not self.knows(INPUT_SETS):
            if self._widen and (0, False) in self._steps:
                self._drop_widened()
            else:
                self._doubt(Doubt.FAILED, f"one call takes longer than {limit_s:g} s")
        self.child.kill()

    # 1. Everything was known, or only the latency was missing: continue without it.
    # 2. The fork server is gone as well: the lane opens the task again.
    # 3. The child was killed from outside: replace it, a few times.
    # 4. It crashed while the widened form, which needs more memory, was wanted: replace it, without that form.
    # 5. It crashed without it: doubt.
    def ended(self) -> None:
        """Replace the child, or raise doubt."""
        if self.is_done:
            return
        if self.knows(INPUT_SETS):
            self._timing_is_over = True
            self._on_progress()
            return
        self.task_process_is_lost = not self._server.alive
        if not self.task_process_is_lost:
            if was_killed(self.child.exit(timeout_s=1.0)) and self._kills < _MAX_KILLS:
                self._kills += 1
            elif self._widen:
                self._drop_widened()
            else:
                self._doubt(Doubt.FAILED, f"its process ended: {self.child.output()[-500:]}")
                return
            self._replace_child()
        self._on_progress()

    def _drop_widened(self) -> None:
        """Continue without the widened form."""
        self._widen = False

    def _replace_child(self) -> None:
        try:
            self.child = self._fork()
        except ForkFailed:
            self.task_process_is_lost = True

    def judge(self, outputs: Iterable[tuple[int, Sequence[Array]]]) -> float:
        """Return the worst error as a multiple of the allowed one. ``outputs`` pairs input set numbers with outputs."""
        worst = 0.0
        for number, own in outputs:
            error = worst_error(self._references[number], own)
            if error > 1.0 and len(own) == 1:
                self.disputed.setdefault(number, set()).add(self._references[number][0].worst_element(own[0]))
            worst = max(worst, error)
        return worst

    def judge_samples(
        self, samples: OutputSamples, leading: int, outputs: Iterable[tuple[int, Sequence[Array]]]
    ) -> float:
        """The same for the only output, computed at ``samples``."""

        def error_of(number: int, output: Array) -> float:
            def pick(array: Array) -> Array:
                return samples.pick(number, leading, array)

            return self._references[number][0].among(pick).error(pick(output))

        return max(error_of(number, own[0]) for number, own in outputs)

    def difference_from(self, other: "Referee") -> float:
        """Return the worst difference to another run of the function, as a multiple of the allowed error."""
        return max(worst_error(own, other.values(number)) for number, own in self._references.items())

    def values(self, set_number: int) -> list[Array]:
        """Return the reference outputs for a known set of inputs."""
        return [reference.values for reference in self._references[set_number]]

    def distrust(self, text: str) -> None:
        """Stop judging, because the reference turned out to be unreliable; ``text`` states why."""
        self._doubt(Doubt.UNTRUSTED, text)

    def complaint(self, error: float) -> str:
        """Return the failure message for such an error."""
        return f"The output is wrong: its error is {error:.3g} times the tolerance."

    def error_of(self, outputs: Sequence[Array]) -> float:
        """Return the error of outputs on the first set of inputs, as a multiple of the allowed one."""
        return worst_error(self._references[0], outputs)

    @property
    def repeated_calls_agree(self) -> bool:
        """Whether a second call on the same tensors must give the same outputs: unless an output is also read."""
        return self._repeatable

    def close(self) -> None:
        """End the child."""
        self.child.close()

    def _done(self, step: ReferenceStep) -> None:
        """Record that outputs were sent. Raises ``ValueError`` if they were not."""
        slot = reference_slot(step.set_number, double=step.double)
        if not 0 <= step.set_number < INPUT_SETS or not self._sent.holds(slot):
            raise ValueError("outputs were announced but not sent")
        self._steps.add((step.set_number, step.double))

    def _broken(self, broken: ReferenceBroken) -> None:
        if broken.double:
            self._widen = False
        else:
            self._doubt(Doubt.FAILED, broken.message)

    def _settle(self) -> None:
        """Derive the references for each set of inputs whose outputs are complete."""
        for number in range(INPUT_SETS):
            known = (number, False) in self._steps and (not self._widen or (number, True) in self._steps)
            if known and number not in self._references and self.doubt is None:
                self._learn(number)

    def _learn(self, number: int) -> None:
        own = self._sent.arrays(reference_slot(number, double=False))
        if not all_finite(own):
            self._doubt(Doubt.NOT_FINITE, "")
            return
        doubles: list[Array | None] = [None] * len(own)
        if (number, True) in self._steps:
            doubles = [
                wide if is_floating(tensor.dtype) and all_finite([wide]) else None
                for tensor, wide in zip(
                    self._double.tensors, self._sent.arrays(reference_slot(number, double=True)), strict=True
                )
            ]
        self._references[number] = [
            OutputReference.of(tensor, plain, double)
            for tensor, plain, double in zip(self._own.tensors, own, doubles, strict=True)
        ]
        for double in (False, True):
            self._sent.drop(reference_slot(number, double=double))
        self._on_progress()

    def _doubt(self, doubt: Doubt, text: str) -> None:
        self.doubt = doubt
        self.doubt_text = text
        self._on_progress()
