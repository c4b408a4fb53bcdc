"""Judges schedules that came without their original function: their outputs can only be checked for finite numbers."""

from collections.abc import Callable, Iterable, Sequence

from tunefarm_workers.correctness.output_samples import OutputSamples
from tunefarm_workers.correctness.referee import Doubt
from tunefarm_workers.correctness.tolerance import Array, all_finite


class FiniteReferee:
    """Accepts outputs of finite numbers. Needs no child and no reference."""

    is_done = True
    task_process_is_lost = False
    doubt_text = ""
    repeated_calls_agree = False
    untuned_about_s: float | None = None

    def __init__(self, on_progress: Callable[[], None], *, may_doubt: bool) -> None:
        """With ``may_doubt``, numbers that are not finite raise doubt about the inputs."""
        self._on_progress = on_progress
        self._may_doubt = may_doubt
        self.doubt: Doubt | None = None

    def knows(self, sets: int) -> bool:
        """Return True: there is nothing to compute first."""
        del sets
        return True

    def judge(self, outputs: Iterable[tuple[int, Sequence[Array]]]) -> float:
        """Return 0 if every output is finite, else infinity. ``outputs`` pairs numbers of input sets with outputs."""
        return max(self.error_of(own) for _, own in outputs)

    def judge_samples(
        self, samples: OutputSamples, leading: int, outputs: Iterable[tuple[int, Sequence[Array]]]
    ) -> float:
        """The same for the samples of the only output."""
        return self.judge((number, [samples.pick(number, leading, own[0])]) for number, own in outputs)

    def error_of(self, outputs: Sequence[Array]) -> float:
        """Return 0 if every output is finite, else infinity."""
        if all_finite(outputs):
            return 0.0
        if self._may_doubt and self.doubt is None:
            self.doubt = Doubt.NOT_FINITE
            self._on_progress()
        return float("inf")

    @staticmethod
    def complaint(error: float) -> str:
        """Return the failure message for such an error."""
        del error
        return f"The output cannot be trusted: {Doubt.NOT_FINITE.value}."

    def close(self) -> None:
        """Nothing to close."""
