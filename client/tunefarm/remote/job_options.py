"""The options of a job on a service, which extend those of a job on this machine."""

from tunefarm.options.job_options import JobOptions
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.job import Effort


class RemoteJobOptions(JobOptions):
    """All options of a service's job except its module, target and space."""

    device_seconds: float | None = None
    deadline_s: float | None = None
    priority: int = 0
    device_class_id: str | None = None

    def effort(self) -> Effort:
        """The limits of the job.

        Raises:
            BadInput: a limit is not positive.
        """
        for field, value in (("device_seconds", self.device_seconds), ("deadline_s", self.deadline_s)):
            if value is not None and not value > 0:
                raise BadInput(field, f"{value:g} is not a positive number.", "Give at least 1, or omit it.")
        return super().effort().model_copy(update={"device_seconds": self.device_seconds})
