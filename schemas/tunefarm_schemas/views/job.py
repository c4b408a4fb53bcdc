"""Jobs as they are made."""

from tunefarm_schemas.tuning.job import Job


class NewJob(Job):
    """A job with ``notes`` on what its target was taken for, and on what it waits for."""

    notes: tuple[str, ...] = ()
