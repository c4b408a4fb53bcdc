"""Why a device refuses a release or leaves it."""

from tunefarm_schemas.edge.report import EdgeFailure


class Refused(Exception):
    """A release, a repository or a request was refused; the device keeps what it runs.

    Attributes:
        failure: the kind, as it is reported.
        problem: what is wrong.
        fix: what a person can do about it.
    """

    def __init__(self, failure: EdgeFailure, problem: str, fix: str) -> None:
        super().__init__(f"{failure}: {problem} {fix}")
        self.failure: EdgeFailure = failure
        self.problem = problem
        self.fix = fix
