"""Input that a person has to change."""

from typing import Final

REFERENCE_IN_DOUBT: Final = "reference"
"""The field of the alarm that what outputs are compared with is damaged, or its host or device is."""


class BadInput(Exception):
    """Raised at the edge for input that cannot be used.

    Attributes:
        field: what the user named it, such as ``--target`` or ``trials``.
        problem: what is wrong with it.
        fix: what to do instead.
    """

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem} {fix}")
        self.field = field
        self.problem = problem
        self.fix = fix
