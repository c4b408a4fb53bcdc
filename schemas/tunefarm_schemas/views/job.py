"""Created jobs."""

from tunefarm_schemas.tuning.job import Job


class NewJob(Job):
    """A job with ``notes`` on how its target was interpreted and what it waits for."""

    notes: tuple[str, ...] = ()
