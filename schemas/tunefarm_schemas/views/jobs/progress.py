"""The progress of a running job."""

from tunefarm_schemas.frozen import Frozen


class TaskTime(Frozen):
    """A task of a model while its job runs. ``weight`` is its number of calls; latencies are of one call, in seconds.

    ``share`` is its part of the model's predicted time, None until each task has a latency.
    """

    name: str = ""
    weight: float = 1.0
    trials: int = 0
    untried_latency_s: float | None = None
    best_latency_s: float | None = None
    share: float | None = None
