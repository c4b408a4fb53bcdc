"""Interleaved timings of several schedules of one workload, in a few processes."""

import sys
from collections.abc import Sequence
from statistics import median

from benchmarks.child_process import run_command
from tunefarm_schemas.frozen import Frozen

PROCESSES = 3
"""The placement of machine code and temporary buffers, constant in a process, changes the speed of some kernels by up
to a factor of two."""


class NamedSchedule(Frozen):
    """A schedule to be timed again."""

    name: str
    trace: str


class RetimeOrder(Frozen):
    """Build each schedule as shipped, and time them in turn for ``rounds`` rounds."""

    workload: str
    cores: int
    schedules: tuple[NamedSchedule, ...]
    rounds: int = 7
    sample_s: float = 0.005


class Retimed(Frozen):
    """Times of one schedule. The i-th samples of all schedules are from the same round.

    ``latency_s`` is the median and ``deviation_s`` the median absolute deviation of ``samples_s``, seconds per call.
    ``agrees`` says whether the output equals the unscheduled function's up to rounding.
    """

    name: str
    latency_s: float
    deviation_s: float
    samples_s: tuple[float, ...]
    agrees: bool


class RetimeAnswer(Frozen):
    """One result per schedule, in the order of the request."""

    schedules: tuple[Retimed, ...]

    def named(self, name: str) -> Retimed:
        """The result of the schedule ``name``."""
        return next(schedule for schedule in self.schedules if schedule.name == name)


def retime(order: RetimeOrder, *, timeout_s: float) -> RetimeAnswer:
    """Time the schedules in new processes, with nothing else of the benchmark running.

    Raises:
        CommandFailed: a process fails, for example because a schedule crashes.
    """
    return _together([_in_process(order, timeout_s) for _ in range(PROCESSES)])


def of_samples(name: str, samples_s: Sequence[float], *, agrees: bool) -> Retimed:
    """Statistics of the samples of one schedule."""
    latency_s = median(samples_s)
    deviation_s = median(abs(sample_s - latency_s) for sample_s in samples_s)
    return Retimed(name=name, latency_s=latency_s, deviation_s=deviation_s, samples_s=tuple(samples_s), agrees=agrees)


def _in_process(order: RetimeOrder, timeout_s: float) -> RetimeAnswer:
    finished = run_command(
        [sys.executable, "-m", "benchmarks.comparison.retime"],
        cores=order.cores,
        environment={},
        standard_input=order.model_dump_json(),
        timeout_s=timeout_s,
    )
    return RetimeAnswer.model_validate(finished.last_json())


def _together(answers: Sequence[RetimeAnswer]) -> RetimeAnswer:
    """The samples of all processes. A schedule agrees if it agrees in each of them."""
    schedules = []
    for same in zip(*(answer.schedules for answer in answers), strict=True):
        samples_s = [sample_s for retimed in same for sample_s in retimed.samples_s]
        schedules.append(of_samples(same[0].name, samples_s, agrees=all(retimed.agrees for retimed in same)))
    return RetimeAnswer(schedules=tuple(schedules))
