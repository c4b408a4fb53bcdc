"""When drift in the field opens a job that tunes a record again."""

from pydantic import Field

from tunefarm_schemas.frozen import Frozen

WEEK_S = 7 * 86_400.0


class RetunePolicy(Frozen):
    """The retune policy of a channel. Off by default.

    Attributes:
        enabled: whether drift opens jobs; it raises alerts in any case.
        trials: budget of each job.
        seconds: further limit of the search of each job; None for no limit.
        cool_down_s: least time between two jobs for the same record. A job that has found no device by then ends.
    """

    enabled: bool = False
    trials: int = Field(default=256, ge=1, le=1_000_000)
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    cool_down_s: float = Field(default=WEEK_S, ge=60.0, le=520 * WEEK_S)
