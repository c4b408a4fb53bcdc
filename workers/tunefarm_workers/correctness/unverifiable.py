"""The error for functions whose results cannot be checked, from the doubt of their referee."""

from tunefarm_schemas.bad_input import REFERENCE_IN_DOUBT, UnverifiableFunction
from tunefarm_workers.correctness.referee import Doubt


def unverifiable(exploration_id: str, doubt: Doubt, text: str) -> UnverifiableFunction:
    """The error of a function whose reference is in doubt; ``text`` has the details."""
    if doubt is Doubt.UNTRUSTED:
        return UnverifiableFunction(
            exploration_id,
            REFERENCE_IN_DOUBT,
            f"results of this function cannot be verified: {doubt.value}: {text}",
            "Nothing was recorded. Check the memory and the processor of the host, and what else runs there as the"
            " same user; then tune again, or on another device.",
        )
    return UnverifiableFunction(
        exploration_id,
        "module",
        f"results of this function cannot be verified: {doubt.value}. {text}".strip(),
        "Give a function that computes finite numbers from usual inputs, or say what they are: --input.",
    )
