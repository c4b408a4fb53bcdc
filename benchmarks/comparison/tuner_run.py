"""The result of a run of a tuner."""

from tunefarm_schemas.frozen import Frozen


class Point(Frozen):
    """A new best: wall seconds since the process started, trials until then, seconds per call, and the schedule.

    ``trace`` is None where the tuner does not say which schedule it was.
    """

    elapsed_s: float
    trials: int
    latency_s: float
    trace: str | None = None


class Repeat(Frozen):
    """The same command again over the same store."""

    wall_s: float
    trials: int


class TunerRun(Frozen):
    """One tuner on one workload with one seed.

    ``wall_s`` runs from before the process is started until it has exited. ``final_trace`` is the schedule that the
    tuner would ship. ``seconds`` splits the time as far as the tuner tells: start, search, build, wait, run, verify.
    """

    tuner: str
    workload: str
    seed: int
    cores: int
    trials_asked: int
    trials: int
    wall_s: float
    points: tuple[Point, ...]
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
