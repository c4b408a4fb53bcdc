"""Builds the summary of a job: the result of each task, and the latencies of its own schedules."""

from collections.abc import Sequence

from tunefarm_schemas.roofline import DevicePeaks, Roofline, roofline_of
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_schemas.tuning.job import JobOutcome, StopReason
from tunefarm_schemas.tuning.measurement import Failed, Stopped, Timing
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.views.jobs.summary import JobSummary, ScheduleTime, TaskSummary, Winner
from tunefarm_services.tuner.job.effort_left import as_scheduled, is_same_schedule
from tunefarm_services.tuner.job.job_run import JobRun
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.verify.ranking import UNTUNED


def summary_of(run: JobRun, outcome: JobOutcome | None, message: str, *, answered: bool = False) -> JobSummary:
    """The summary at the end of a run; ``outcome`` is None if the job can be resumed."""
    seconds = {"total": run.elapsed_s(), **run.seconds()}
    if run.session is not None:
        seconds["first_measured"] = run.session.first_measured_s or 0.0
        report = run.session.report
        seconds["search"] = report.evolve_s + report.train_s + report.apply_s if report is not None else 0.0
    tasks = tuple(_task_summary(each, run, answered) for each in run.explorations)
    return JobSummary(
        job_id=run.job.job_id,
        outcome=outcome,
        message=message,
        tasks=tasks,
        seconds=seconds,
        of_model=run.job.spec.of_model,
    )


def _task_summary(each: ExplorationRun, run: JobRun, answered: bool) -> TaskSummary:
    end = run.finished.get(each.exploration_id)
    record = end.record if end is not None else None
    interrupted = StopReason.INTERRUPTED if end is None else None
    is_others = end is not None and record is not None and not end.is_new and not _is_of_job(each, record)
    own_best = _run_best(each) if is_others else None
    return TaskSummary(
        name=each.task.name,
        exploration_id=each.exploration_id,
        best_latency_s=record.latency_s if record is not None else each.best_latency_s,
        untuned_latency_s=each.untuned_latency_s,
        untuned_is_estimate=each.untuned_is_estimate,
        interval_s=record.interval_s if record is not None else None,
        record_id=record.record_id if record is not None else None,
        artifact_id=end.artifact_id if end is not None else None,
        trials=each.trials_of_job,
        trials_in_run=each.trials_done,
        trials_in_store=each.trials_in_store,
        stop_reason=each.stop_reason or each.exploration.spent.stop_reason or interrupted,
        improvements=tuple(each.improvements),
        failures=dict(each.failures_of_job),
        first_failure_message=each.first_failure_message,
        answered_from_store=answered,
        was_busy=record is not None and record.was_busy,
        samples_s=each.samples_s,
        run_best=own_best,
        store_best=_store_best(each, record) if own_best is not None and record is not None else None,
        seeds=_seed_times(each, run.job.spec.seed_traces),
        model_accuracy=tuple(each.model_accuracy),
        weight=each.task.weight,
        floating_point_operations=each.workload.floating_point_operations,
        winner=_winner(each, record),
        untried_latency_s=each.untried_latency_s,
        roofline=_roofline(each, run.peaks),
    )


def _roofline(each: ExplorationRun, peaks: DevicePeaks | None) -> Roofline | None:
    workload, protocol = each.workload, PROTOCOLS.get(each.exploration.key.protocol_id)
    return roofline_of(
        workload.floating_point_operations,
        workload.work,
        peaks,
        each.target.num_cores,
        cold_cache=protocol is not None and protocol.cold_cache,
    )


def _winner(run: ExplorationRun, record: TuningRecord | None) -> Winner | None:
    if record is None:
        return None
    if record.trace == UNTUNED:
        return "untuned"
    return "untried" if record.trace == run.untried_trace else "search"


def _run_best(run: ExplorationRun) -> ScheduleTime | None:
    """The fastest schedule that this job tried; None if none was timed."""
    own = {number: latency_s for number, latency_s in run.latencies_s.items() if run.is_of_job(number)}
    if not own:
        return None
    compared = [run.compared_s[run.traces[number]] for number in own if run.traces[number] in run.compared_s]
    if compared:
        return ScheduleTime(latency_s=min(compared), timed="side by side")
    return ScheduleTime(latency_s=min(own.values()), timed="in the search")


def _store_best(run: ExplorationRun, record: TuningRecord) -> ScheduleTime:
    """The latency of the recorded schedule, from the comparison with this job's schedules if there was one."""
    compared_s = run.compared_s.get(record.trace)
    if compared_s is not None:
        return ScheduleTime(latency_s=compared_s, timed="side by side")
    return ScheduleTime(latency_s=record.latency_s, timed="in fresh processes")


def _is_of_job(run: ExplorationRun, record: TuningRecord) -> bool:
    """Whether a run of this job tried the schedule of ``record``."""
    return any(trace == record.trace and run.is_of_job(number) for number, trace in run.traces.items())


def _seed_times(run: ExplorationRun, seeds: Sequence[Trace]) -> tuple[ScheduleTime, ...]:
    """The latency of each seed, in order."""
    return tuple(_seed_time(run, seed) for seed in seeds)


def _seed_time(run: ExplorationRun, seed: Trace) -> ScheduleTime:
    number = _trial_of(run, seed)
    if number is None:
        return ScheduleTime(failure="it was not measured: it does not apply to the function, or the search ended first")
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
    return ScheduleTime(failure="it was sent, but no result was received")


def _trial_of(run: ExplorationRun, seed: Trace) -> int | None:
    """The number of the first trial with the schedule of ``seed``."""
    wanted = as_scheduled(seed)
    same = (number for number, trace in run.traces.items() if is_same_schedule(wanted, as_scheduled(trace)))
    return min(same, default=None)
