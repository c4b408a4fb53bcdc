"""Judges schedules that came without the function they were made from: all there is to say is whether they compute."""

import mmap
from collections.abc import Callable, Sequence

from tunefarm_workers.argument import Argument
from tunefarm_workers.output_layout import OutputLayout
from tunefarm_workers.referee import Doubt
from tunefarm_workers.tolerance import Array, all_finite


class FiniteReferee:
    """Finds outputs right that are finite numbers. It has no child and knows everything from the start."""

    is_done = True
    host_is_lost = False
    doubt_text = ""
    repeated_calls_agree = False
    untuned_about_s: float | None = None

    def __init__(self, arguments: tuple[Argument, ...], on_progress: Callable[[], None], *, may_doubt: bool) -> None:
        """With ``may_doubt``, numbers that are not finite raise doubt about the inputs, which others may dispel."""
        self._layout = OutputLayout.of(tuple(argument.tensor for argument in arguments))
        self._on_progress = on_progress
        self._may_doubt = may_doubt
        self.doubt: Doubt | None = None

    def knows(self, sets: int) -> bool:
        """Always: nothing has to be computed first."""
        del sets
        return True

    def judge(self, memory: mmap.mmap, set_numbers: Sequence[tuple[int, int]]) -> float:
        """0 when every output is finite, else infinity.

        ``set_numbers`` pairs slots of ``memory`` with sets of inputs.
        """
        size_bytes = self._layout.size_bytes
        return max(self.error_of(self._layout.arrays(memory, slot * size_bytes)) for slot, _ in set_numbers)

    def error_of(self, outputs: Sequence[Array]) -> float:
        """0 when every output is finite, else infinity."""
        if all_finite(outputs):
            return 0.0
        if self._may_doubt and self.doubt is None:
            self.doubt = Doubt.NOT_FINITE
            self._on_progress()
        return float("inf")

    @staticmethod
    def complaint(error: float) -> str:
        """What to say of outputs with such an error."""
        del error
        return f"The output cannot be trusted: {Doubt.NOT_FINITE.value}."

    def close(self) -> None:
        """Nothing is held."""
