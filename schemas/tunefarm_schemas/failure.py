"""Why something did not work, as values."""

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
        """Whether the cause may lie outside the candidate, so that it deserves another attempt."""
        return self in {FailureReason.DEVICE_LOST, FailureReason.CANCELED}


class TrialFailure(Frozen):
    """A trial that gave no time: what happened, and text a person can act on."""

    reason: FailureReason
    message: str = Field(max_length=4000)
    under_load: bool = False
    """Whether other work shared the host at that time; a time-out under load may be tried again."""

    @field_validator("message")
    @classmethod
    def _can_be_stored(cls, value: str) -> str:
        """What a child printed may hold anything; PostgreSQL keeps every character but this."""
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")

    @property
    def may_be_tried_again(self) -> bool:
        """Whether this failure leaves the candidate open for another attempt."""
        timed_out = self.reason in {FailureReason.BUILD_TIMEOUT, FailureReason.RUN_TIMEOUT}
        return self.reason.may_be_tried_again or (timed_out and self.under_load)
