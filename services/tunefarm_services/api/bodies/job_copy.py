"""The bodies that create copies of a job."""

from pydantic import Field, field_validator

from tunefarm_schemas.tuning.job import Strategy
from tunefarm_services.api.bodies.body import Body, Seconds, with_examples
from tunefarm_services.api.bodies.job import Label, LabelValue
from tunefarm_services.jobs.copies import MAX_TRIALS, JobChanges


class EffortChangeBody(Body):
    """Limits that differ from the job's. Null removes a limit other than the trials; an absent one stays."""

    trials: int | None = Field(default=None, gt=0, le=MAX_TRIALS)
    seconds: Seconds | None = None
    plateau_trials: int | None = Field(default=None, gt=0, le=MAX_TRIALS)
    target_latency_s: Seconds | None = None
    device_seconds: Seconds | None = None

    @field_validator("trials")
    @classmethod
    def _is_a_number(cls, trials: int | None) -> int:
        if trials is None:
            raise ValueError("A job needs a number of trials. Leave it out to keep that of the job.")
        return trials


class CloneBody(Body):
    """How the new job differs from the one that it copies. Absent fields stay as they are there."""

    model_config = with_examples({"strategy": "random", "seed": 1, "fresh": True}, {"effort": {"trials": 2000}})

    effort: EffortChangeBody | None = None
    strategy: Strategy | None = None
    seed: int | None = Field(default=None, ge=0, lt=2**31)
    labels: dict[Label, LabelValue] | None = Field(
        default=None, max_length=32, description="Replaces all labels of the job."
    )
    fresh: bool | None = Field(default=None, description="Ignore stored results.")
    priority: int | None = Field(default=None, ge=-100, le=100)
    deadline_s: Seconds | None = None

    def changes(self) -> JobChanges:
        """The body as changes of a job."""
        effort = None
        if self.effort is not None:
            effort = {name: getattr(self.effort, name) for name in sorted(self.effort.model_fields_set)}
        rest = {name: getattr(self, name) for name in type(self).model_fields if name != "effort"}
        return JobChanges(effort=effort, **rest)


class MoreTrialsBody(Body):
    """How many trials to make beyond those that the job's tasks have."""

    model_config = with_examples({"trials": 500})

    trials: int = Field(gt=0, le=MAX_TRIALS)
