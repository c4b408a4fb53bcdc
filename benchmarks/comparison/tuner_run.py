"""The result of a run of a tuner."""

from tunefarm_schemas.frozen import Frozen


class IncumbentPoint(Frozen):
    """A new best: wall seconds since the process started, trials so far, seconds per call, and the schedule.

    ``trace`` is None if the tuner does not report the schedule.
    """

    elapsed_s: float
    trials: int
    latency_s: float
    trace: str | None = None


class Repeat(Frozen):
    """The same command again with the same store."""

    wall_s: float
    trials: int


class TunerRun(Frozen):
    """One tuner on one workload with one seed.

    ``wall_s`` is from before the start of the process to its exit. ``final_trace`` is the schedule that the tuner would
    ship. ``seconds`` are the stages that the tuner reports: start, search, build, wait, run, verify.
    """

    tuner: str
    workload: str
    seed: int
    cores: int
    trials_asked: int
    trials: int
    wall_s: float
    points: tuple[IncumbentPoint, ...]
    final_trace: str | None
    seconds: dict[str, float]
    failures: dict[str, int]
    repeat: Repeat | None = None


class TunerOrder(Frozen):
    """The request to a tuner."""

    workload: str
    trials: int
    seed: int
    cores: int
