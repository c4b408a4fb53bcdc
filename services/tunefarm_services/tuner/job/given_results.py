"""What measuring schedules that a job brought along gave, as the store holds it."""

from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import Failed, Stopped, Timing
from tunefarm_services.store.store import Store
from tunefarm_services.tuner.farm.dispatching import ATTEMPTS
from tunefarm_services.tuner.job.job_run import JobRun
from tunefarm_services.tuner.job.search_orders import load_trials
from tunefarm_services.tuner.search.exploration_run import ExplorationRun


def take_results(store: Store, job_run: JobRun) -> None:
    """Show what the store holds, whichever run it was measured in."""
    opened = job_run.by_id()
    for run in job_run.explorations:
        load_trials(store, job_run.lease, run)
        run.forget_earlier_runs()  # what is measured as it is has one trial, whichever run made it
        # Of two tasks with the same module only one was opened.
        run.failures = opened[run.exploration_id].failures
        run.first_failure_message = opened[run.exploration_id].first_failure_message
        result = result_of(run)
        if result is not None:
            _show(run, result)


def without_time(job_run: JobRun) -> str:
    """How many gave no time, if any."""
    asked = len(job_run.job.spec.tasks)
    failed = asked - sum(run.best_latency_s is not None for run in job_run.explorations)
    return f"{failed} of {asked} gave no time" if failed else ""


def result_of(run: ExplorationRun) -> Timing | Stopped | Failed | None:
    """What measuring gave, in whichever run of the job; None while there is nothing but what was called off or lost."""
    for known in run.known:
        result = known.measurement.result
        if not isinstance(result, Failed):
            return result
        is_lost = result.failure.reason is FailureReason.DEVICE_LOST and known.measurement.attempt < ATTEMPTS
        if not is_lost and result.failure.reason is not FailureReason.CANCELED:
            return result
    return None


def _show(run: ExplorationRun, result: Timing | Stopped | Failed) -> None:
    run.trials_done = 1
    if isinstance(result, Timing):
        run.samples_s = result.samples_s
    elif isinstance(result, Failed) and not run.first_failure_message:
        run.failures[result.failure.reason.value] = 1
        run.first_failure_message = result.failure.message
