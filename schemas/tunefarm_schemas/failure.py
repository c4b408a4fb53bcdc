"""Reasons of failures, as values."""

from enum import StrEnum

from pydantic import Field, field_validator

from tunefarm_schemas.frozen import Frozen


class FailureReason(StrEnum):
    """Every way in which a trial can fail."""

    INVALID_SCHEDULE = "invalid_schedule"
    BUILD_ERROR = "build_error"
    BUILD_TIMEOUT = "build_timeout"
    RUN_ERROR = "run_error"
    RUN_TIMEOUT = "run_timeout"
    CRASH = "crash"
    OUT_OF_MEMORY = "out_of_memory"
    WRONG_RESULT = "wrong_result"
    DEVICE_LOST = "device_lost"
    CANCELED = "canceled"

    @property
    def may_be_tried_again(self) -> bool:
        """Whether the cause may lie outside the candidate, so that another attempt is worthwhile."""
        return self in {FailureReason.DEVICE_LOST, FailureReason.CANCELED}


class TrialFailure(Frozen):
    """A trial without a timing: the reason, and a message for the user."""

    reason: FailureReason
    message: str = Field(max_length=4000)
    under_load: bool = False
    """Whether other work shared the host at that time; a timeout under load may be retried."""

    @field_validator("message")
    @classmethod
    def _can_be_stored(cls, value: str) -> str:
        """Output of a child may contain any character; PostgreSQL cannot store this one."""
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")

    @property
    def may_be_tried_again(self) -> bool:
        """Whether the candidate may be attempted again after this failure."""
        timed_out = self.reason in {FailureReason.BUILD_TIMEOUT, FailureReason.RUN_TIMEOUT}
        return self.reason.may_be_tried_again or (timed_out and self.under_load)
