"""State of one job in a supervisor, its progress and its messages."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tunefarm_sandbox.fork_server.fork_server import Child
from tunefarm_schemas.bad_input import UnverifiableFunction
from tunefarm_schemas.roofline import DevicePeaks
from tunefarm_schemas.tuning.job import Effort, Job, JobOutcome, StopReason, Strategy
from tunefarm_schemas.tuning.measurement import Measurement
from tunefarm_schemas.views.jobs.progress import TaskTime
from tunefarm_schemas.views.jobs.summary import Progress, Stage
from tunefarm_services.store.jobs.job_repository import FINISHED, deadline_of, deadline_text
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_services.tuner.job.job_watch import JobWatch
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.search.model_accuracy import recent_accuracy
from tunefarm_services.tuner.search.search_session import MeasuredTrials, SearchSession
from tunefarm_services.tuner.verify.stored_answer import Finished
from tunefarm_services.tuner.verify.verifying_steps import VerifyingStep

DESERTED_S: Final = 60.0
"""How long a job whose deadline has passed waits for a lane to return."""


def seconds_to_deadline(job: Job) -> float | None:
    """Seconds until the search must end, negative afterwards; None without a deadline."""
    deadline_at = deadline_of(job)
    return None if deadline_at is None else deadline_at - time.time()


def until_deadline(job: Job, reason: str) -> str:
    """The reason why a job waits, with its deadline if it has one."""
    deadline = deadline_text(job)
    return reason if deadline is None else f"{reason}, until its deadline at {deadline}"


@dataclass(frozen=True)
class Ending:
    """The end of a job. ``answered``: from the store, without measuring."""

    outcome: JobOutcome
    message: str
    answered: bool = False


@dataclass
class JobRun:
    """Mutable state of a job in one supervisor. ``origin_s`` is the wall clock from which elapsed time counts."""

    job: Job
    watch: JobWatch
    explorations: list[ExplorationRun]
    origin_s: float
    peaks: DevicePeaks | None = None
    """Of the farm's device; None if they are unknown."""
    session: SearchSession | None = None
    strategy: Strategy | None = None
    """The strategy in use; None before the search starts."""
    trials_allowed: int | None = None
    search_started_s: float = 0.0
    finished: dict[str, Finished] = field(default_factory=dict)
    step: VerifyingStep | None = None
    """The current verification step; None before verification starts."""
    _step_began_s: float = 0.0
    _verify_began_s: float | None = None
    _without_lanes_since_s: float | None = None
    _earlier_device_s: float = 0.0
    _created_s: float = field(default_factory=time.monotonic)
    _elapsed_before_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._elapsed_before_s = max(time.time() - self.origin_s, 0.0)

    @property
    def lease(self) -> Lease:
        """The lease under which this run works."""
        return self.watch.lease

    def reset(self) -> None:
        """Discard the state that is not in the store, after an outage."""
        self._earlier_device_s = self.device_seconds()
        self.session = None
        self.finished.clear()

    def start_search(self, strategy: Strategy, effort: Effort) -> None:
        """Note the strategy and the effort of a search that starts now."""
        self.strategy = strategy
        self.trials_allowed = self.trials_done() + effort.trials

    def begin_verification(self) -> None:
        """Note that verification starts now."""
        self._verify_began_s = time.monotonic()

    def begin_session(
        self,
        store: MeasuredTrials,
        farm: Farm,
        on_tick: Callable[[], bool],
        on_measured: Callable[[Measurement], None],
        search: Child | None = None,
        on_unverifiable: Callable[[UnverifiableFunction], None] | None = None,
    ) -> SearchSession:
        """Start a session over the explorations, with the arguments of ``SearchSession``, as the current one."""
        self._earlier_device_s = self.device_seconds()
        self.session = SearchSession(
            store=store,
            farm=farm,
            lease=self.lease,
            search=search,
            runs=self.by_id(),
            elapsed_s=self.elapsed_s,
            on_tick=on_tick,
            on_measured=on_measured,
            on_unverifiable=on_unverifiable,
        )
        return self.session

    def poll(self, stage: Stage) -> bool:
        """Renew the lease, read requests, report progress. Returns False if the job must stop. Raises FenceLost."""
        return self.watch.poll(lambda: self.progress(stage))

    def reason_to_end_search(self, device_seconds_left: float | None = None) -> StopReason | None:
        """Why the search must end and verification start; None if it continues.

        ``device_seconds_left`` is the budget of the current session; None if it is unlimited.
        """
        if self.watch.must_finish:
            return StopReason.REQUESTED
        if self.deadline_passed():
            return StopReason.DEADLINE
        session = self.session
        if device_seconds_left is not None and session is not None and session.device_seconds >= device_seconds_left:
            return StopReason.DEVICE_SECONDS
        return None

    def device_seconds(self) -> float:
        """Lane time of this run's candidates, in seconds."""
        return self._earlier_device_s + (self.session.device_seconds if self.session is not None else 0.0)

    def seconds(self) -> dict[str, float]:
        """Wall time until the search started and of verification, and lane time of the current session by stage."""
        stages = self.session.stage_seconds if self.session is not None else {}
        verify_s = 0.0 if self._verify_began_s is None else time.monotonic() - self._verify_began_s
        return {"start": self.search_started_s, "verify": verify_s, **stages}

    def deadline_passed(self) -> bool:
        """Whether the deadline of the search has passed."""
        left_s = self.seconds_to_deadline()
        return left_s is not None and left_s <= 0

    def goes_on(self, stage: Stage, farm: Farm) -> bool:
        """``poll``, which also ends a job that is deserted."""
        if farm.has_lanes() or not self.deadline_passed():
            self._without_lanes_since_s = None
        elif self._without_lanes_since_s is None:
            self._without_lanes_since_s = time.monotonic()
        return self.poll(stage) and not self.is_deserted

    @property
    def is_deserted(self) -> bool:
        """Whether the deadline has passed and no lane took anything for ``DESERTED_S``: nothing else would end it."""
        since_s = self._without_lanes_since_s
        return since_s is not None and time.monotonic() - since_s >= DESERTED_S

    def seconds_to_deadline(self) -> float | None:
        """Seconds until the deadline, negative afterwards; None without a deadline."""
        return seconds_to_deadline(self.job)

    def set_stop_reason(self, reason: StopReason | None) -> None:
        """Note why the search ended early; None for an interruption."""
        for run in self.explorations:
            run.stop_reason = reason

    def elapsed_s(self) -> float:
        """Seconds since the origin, unaffected by changes of the wall clock."""
        return self._elapsed_before_s + time.monotonic() - self._created_s

    def trials_done(self) -> int:
        """Completed trials of this run."""
        return sum(run.trials_done for run in self.explorations)

    def failures(self) -> Counter[str]:
        """Failures by reason, over all runs of the job."""
        counted: Counter[str] = Counter()
        for run in self.explorations:
            counted.update(run.failures_of_job)
        return counted

    def progress(self, stage: Stage) -> Progress:
        """A snapshot of the job."""
        done = self.trials_done()
        earlier = sum(run.trials_of_job for run in self.explorations) - done
        budget = max(self._trials_allowed(), done)
        elapsed_s = self.elapsed_s()
        rate = done / max(elapsed_s - self.search_started_s, 1e-3) if self.search_started_s else 0.0
        latest = max(self.explorations, key=lambda run: run.improvements[-1].elapsed_s if run.improvements else 0.0)
        accuracy = recent_accuracy(latest.model_accuracy)
        return Progress(
            stage=stage,
            task_name=latest.task.name,
            elapsed_s=elapsed_s,
            trials_done=earlier + done,
            trials_budget=earlier + budget,
            best_latency_s=latest.best_latency_s,
            untuned_latency_s=latest.comparable_untuned_s,
            untuned_is_rough=latest.untuned_is_estimate
            or (latest.untuned_latency_s is None and latest.comparable_untuned_s is not None),
            trials_per_s=rate,
            seconds_left=self._left_s(stage, (budget - done) / rate if rate > 0 else None),
            doing=self.step.text if self.step is not None and stage == "verifying" else "",
            failures=dict(self.failures()),
            device_seconds=self.device_seconds(),
            model_rank_accuracy=None if accuracy is None else accuracy.share,
            tasks=self._task_times() if self.job.spec.of_model else (),
            seconds=self.seconds(),
        )

    def _task_times(self) -> tuple[TaskTime, ...]:
        times_s = [run.task.weight * run.best_latency_s for run in self.explorations if run.best_latency_s is not None]
        total_s = sum(times_s) if len(times_s) == len(self.explorations) else None
        return tuple(
            TaskTime(
                name=run.task.name,
                weight=run.task.weight,
                trials=run.trials_of_job,
                untried_latency_s=run.untried_latency_s,
                best_latency_s=run.best_latency_s,
                share=run.task.weight * run.best_latency_s / total_s if run.best_latency_s and total_s else None,
            )
            for run in self.explorations
        )

    def begin_step(self, step: VerifyingStep) -> None:
        """Note the verification step that starts now."""
        self.step, self._step_began_s = step, time.monotonic()

    def _left_s(self, stage: Stage, trials_s: float | None) -> float | None:
        """Time until search or verification ends; None if unknown, or if it exceeded the estimate."""
        if stage == "verifying" and self.step is not None:
            left_s = self.step.seconds - (time.monotonic() - self._step_began_s)
            return left_s if left_s > 0 else None
        return None if trials_s is None or stage != "searching" else self._seconds_left(trials_s)

    def _trials_allowed(self) -> int:
        if self.trials_allowed is not None:
            return self.trials_allowed
        return self.job.spec.effort.trials - sum(run.exploration.spent.trials for run in self.explorations)

    def _seconds_left(self, trials_s: float) -> float:
        """Time until the search ends: ``trials_s`` for its trials, or less if effort or deadline bound it."""
        bounds_s = [trials_s]
        effort_s = self.job.spec.effort.seconds
        if effort_s is not None:
            bounds_s.append(effort_s - (self.elapsed_s() - self.search_started_s))
        to_deadline_s = self.seconds_to_deadline()
        if to_deadline_s is not None:
            bounds_s.append(to_deadline_s)
        return max(min(bounds_s), 0.0)

    def by_id(self) -> Mapping[str, ExplorationRun]:
        """The explorations by id."""
        return {run.exploration_id: run for run in self.explorations}

    def has_timing(self) -> bool:
        """Whether any task has a timed candidate."""
        return any(run.best_latency_s is not None for run in self.explorations)

    def has_records(self) -> bool:
        """Whether each task has a record, or any task of a model, or of a job that was asked to finish early.

        The other functions of a model keep the schedules that they have without a trial.
        """
        ends = [self.finished.get(run.exploration_id) for run in self.explorations]
        have = [end is not None and end.record is not None for end in ends]
        return any(have) if self._finish_requested or self.job.spec.of_model else all(have)

    @property
    def _finish_requested(self) -> bool:
        return any(run.stop_reason is StopReason.REQUESTED for run in self.explorations)

    def failure_message(self, otherwise: str = "none was reported") -> str:
        """The message of a job that ends without a kernel: failure counts, and the first failure or ``otherwise``."""
        ends = [end.failure for end in self.finished.values() if end.record is None and end.failure is not None]
        lost = next((failure for failure in ends if failure.may_be_tried_again), None)
        if lost is not None:
            kept = "The trials are kept; submit the job again to verify them."
            return f"The fastest kernel could not be verified: {lost.message} {kept}"
        if self._finish_requested and all(run.was_left_untried for run in self.explorations):
            return f"{FINISHED} before anything was measured. Submit the job again to search."
        if ends and self.has_timing():
            return f"The fastest kernel could not be verified: {ends[0].message}"
        first = next((run.first_failure_message for run in self.explorations if run.first_failure_message), "")
        counted = ", ".join(f"{reason} {count}" for reason, count in self.failures().most_common())
        if self.strategy == "replay" and not counted:
            return "There is nothing to replay: tune with another strategy first, or pass seed traces."
        refusal = next((run.refusal for run in self.explorations if run.refusal), "")
        if refusal and not counted:
            return f"No valid kernel was found: every schedule was rejected before measurement. {refusal}"
        shown = first or (ends[0].message if ends else otherwise)
        return f"No valid kernel was found ({counted or 'nothing was measured'}). The first failure: {shown}"

    def success_message(self) -> str:
        """The message of a job with records: unverified tasks, records timed again, an early finish."""
        failures = [end.failure for end in self.finished.values() if end.failure is not None]
        if not failures:
            return self._finish_message() or next((end.note for end in self.finished.values() if end.note), "")
        kept = "The record of an earlier search remains valid; the trials are kept."
        return f"The new result could not be verified: {failures[0].message} {kept}"

    def _finish_message(self) -> str:
        """The message of a job that was asked to finish early, with the tasks that have no result."""
        if not self._finish_requested:
            return ""
        missing = [run.task.name for run in self.explorations if run.best_latency_s is None]
        return f"{FINISHED}; nothing was found for {', '.join(missing)}" if missing else FINISHED
