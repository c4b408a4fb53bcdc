"""Input that the user has to change."""

from typing import Final

REFERENCE_IN_DOUBT: Final = "reference"
"""The field of the alert that the reference, its host or its device is damaged."""


class BadInput(Exception):
    """Raised where input enters the system and cannot be used.

    Attributes:
        field: its name as the user knows it, such as ``--target`` or ``trials``.
        problem: what is wrong with it.
        fix: what to do instead.
    """

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem} {fix}")
        self.field = field
        self.problem = problem
        self.fix = fix


class UnverifiableFunction(BadInput):
    """Raised for the exploration ``exploration_id``, whose results cannot be checked."""

    def __init__(self, exploration_id: str, field: str, problem: str, fix: str) -> None:
        super().__init__(field, problem, fix)
        self.exploration_id = exploration_id
