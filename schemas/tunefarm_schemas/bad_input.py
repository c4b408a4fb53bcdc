"""Input that a person has to change."""


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
