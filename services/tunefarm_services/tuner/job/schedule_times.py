"""What the schedules of a job itself took, where the store's best is another one, and what its seeds took."""

from collections.abc import Sequence

from tunefarm_schemas.tuning.measurement import Failed, Stopped, Timing
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.tuner.job.effort_left import as_scheduled, does_the_same
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.summary import ScheduleTime


def run_best(run: ExplorationRun) -> ScheduleTime | None:
    """What the fastest schedule took that a run of this job tried; None where none was timed."""
    own = {number: latency_s for number, latency_s in run.latencies_s.items() if run.is_of_job(number)}
    if not own:
        return None
    compared = [run.compared_s[run.traces[number]] for number in own if run.traces[number] in run.compared_s]
    if compared:
        return ScheduleTime(latency_s=min(compared), timed="side by side")
    return ScheduleTime(latency_s=min(own.values()), timed="in the search")


def store_best(run: ExplorationRun, record: TuningRecord) -> ScheduleTime:
    """What the schedule of ``record`` took, beside those of this job where they were compared."""
    compared_s = run.compared_s.get(record.trace)
    if compared_s is not None:
        return ScheduleTime(latency_s=compared_s, timed="side by side")
    return ScheduleTime(latency_s=record.latency_s, timed="in fresh processes")


def is_of_job(run: ExplorationRun, record: TuningRecord) -> bool:
    """Whether a run of this job tried the schedule of ``record``."""
    return any(trace == record.trace and run.is_of_job(number) for number, trace in run.traces.items())


def seed_times(run: ExplorationRun, seeds: Sequence[Trace]) -> tuple[ScheduleTime, ...]:
    """What each of ``seeds`` took, in their order."""
    return tuple(_seed_time(run, seed) for seed in seeds)


def _seed_time(run: ExplorationRun, seed: Trace) -> ScheduleTime:
    number = _trial_of(run, seed)
    if number is None:
        return ScheduleTime(failure="it was not measured: it does not apply to the function, or was not reached")
    compared_s = run.compared_s.get(run.traces[number])
    if compared_s is not None:
        return ScheduleTime(latency_s=compared_s, timed="side by side")
    match run.results.get(number):
        case Timing(latency_s=latency_s):
            return ScheduleTime(latency_s=latency_s, timed="in the search")
        case Stopped(at_least_s=at_least_s):
            return ScheduleTime(at_least_s=at_least_s, timed="in the search")
        case Failed(failure=failure):
            return ScheduleTime(failure=f"{failure.reason.value}: {failure.message}")
    return ScheduleTime(failure="it was sent, and nothing came back")


def _trial_of(run: ExplorationRun, seed: Trace) -> int | None:
    """The first trial that does what ``seed`` does."""
    wanted = as_scheduled(seed)
    same = (number for number, trace in run.traces.items() if does_the_same(wanted, as_scheduled(trace)))
    return min(same, default=None)
