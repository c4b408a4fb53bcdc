"""The error for functions whose results cannot be checked."""

from typing import Self

from tunefarm_schemas.bad_input import REFERENCE_IN_DOUBT, BadInput
from tunefarm_workers.correctness.referee import Doubt


class UnverifiableFunction(BadInput):
    """Raised for the exploration ``exploration_id``, which cannot be measured."""

    def __init__(self, exploration_id: str, field: str, problem: str, fix: str) -> None:
        super().__init__(field, problem, fix)
        self.exploration_id = exploration_id

    @classmethod
    def because_of(cls, exploration_id: str, doubt: Doubt, text: str) -> Self:
        """Convert the referee's doubt; ``text`` has the details."""
        if doubt is Doubt.UNTRUSTED:
            return cls(
                exploration_id,
                REFERENCE_IN_DOUBT,
                f"results of this function cannot be verified: {doubt.value}: {text}",
                "Nothing was recorded. Check the memory and the processor of the host, and what else runs there as the"
                " same user; then tune again, or on another device.",
            )
        return cls(
            exploration_id,
            "module",
            f"results of this function cannot be verified: {doubt.value}. {text}".strip(),
            "Give a function that computes finite numbers from usual inputs, or say what they are: --input.",
        )
