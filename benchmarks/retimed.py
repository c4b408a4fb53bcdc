"""Schedules of one workload, timed again beside each other in one process."""

import sys

from benchmarks.child_process import run_command
from tunefarm_schemas.frozen import Frozen


class NamedSchedule(Frozen):
    """A schedule to be timed again."""

    name: str
    trace: str


class RetimeOrder(Frozen):
    """Build each schedule as it would be shipped, and time them in turn, ``rounds`` times."""

    workload: str
    cores: int
    schedules: tuple[NamedSchedule, ...]
    rounds: int = 21
    sample_s: float = 0.005


class Retimed(Frozen):
    """One schedule's times: the i-th sample of every schedule was taken in the same round.

    ``latency_s`` is the median and ``deviation_s`` the median absolute deviation of ``samples_s``, seconds per call.
    ``agrees`` says whether the output equals the unscheduled function's up to rounding.
    """

    name: str
    latency_s: float
    deviation_s: float
    samples_s: tuple[float, ...]
    agrees: bool


class RetimeAnswer(Frozen):
    """One result per schedule, in the order asked."""

    schedules: tuple[Retimed, ...]

    def named(self, name: str) -> Retimed:
        """The result of the schedule called ``name``."""
        return next(schedule for schedule in self.schedules if schedule.name == name)


def retime(order: RetimeOrder, *, timeout_s: float) -> RetimeAnswer:
    """Time the schedules in a process made for it, with no other work of ours on the machine.

    Raises:
        CommandFailed: the process fails, for example because a schedule crashes.
    """
    finished = run_command(
        [sys.executable, "-m", "benchmarks.retime"],
        cores=order.cores,
        environment={},
        standard_input=order.model_dump_json(),
        timeout_s=timeout_s,
    )
    return RetimeAnswer.model_validate(finished.last_json())
