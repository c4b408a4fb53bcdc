"""State of one exploration in a job: known trials, new results and the incumbent."""

from collections import Counter
from dataclasses import dataclass, field
from statistics import median

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_schemas.tuning.job import Exploration, StopReason
from tunefarm_schemas.tuning.least_work import LeastWork, disbelief, least_latency_s
from tunefarm_schemas.tuning.measurement import (
    CandidateOrigin,
    Failed,
    Measurement,
    MeasureTask,
    Result,
    Timing,
)
from tunefarm_schemas.tuning.record import RecordKey
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Abi, Task, Workload
from tunefarm_schemas.views.jobs.summary import Improvement, ModelAccuracy
from tunefarm_services.tuner.search.search_messages import KnownTrialMessage

ROUGH_GRAIN_S = 5e-5
"""A single call with cold caches takes microseconds whatever it computes, so one call of a shorter function cannot be
compared with the timings of candidates."""
AS_GIVEN = "as-given"
"""Id of the space that contains the unchanged module only."""


@dataclass
class ExplorationRun:
    """Mutable state of one exploration in one run of a job. Only its supervisor changes it."""

    task: Task
    workload: Workload
    target: Target
    abi: Abi
    exploration: Exploration
    input_specs: tuple[InputSpec, ...] = ()
    input_examples: tuple[InputExample, ...] = ()
    callees: tuple[str, ...] = ()
    traces: dict[int, Trace] = field(default_factory=dict)
    known: list[KnownTrialMessage] = field(default_factory=list)
    latencies_s: dict[int, float] = field(default_factory=dict)
    best_latency_s: float | None = None
    improvements: list[Improvement] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    first_failure_message: str = ""
    trials_done: int = 0
    untuned_latency_s: float | None = None
    untuned_is_estimate: bool = False
    """Whether ``untuned_latency_s`` was extrapolated from part of the function's loop iterations."""
    untuned_about_s: float | None = None
    """Approximate latency, until the untuned function is timed beside the tuned ones."""
    stop_reason: StopReason | None = None
    refusal: str = ""
    """Why most schedules were rejected before measurement."""
    samples_s: tuple[float, ...] = ()
    least_work: LeastWork = field(default_factory=LeastWork)
    """The minimum work of every schedule; zero before a search child reports it."""
    results: dict[int, Result] = field(default_factory=dict)
    model_accuracy: list[ModelAccuracy] = field(default_factory=list)
    compared_s: dict[Trace, float] = field(default_factory=dict)
    """Latencies of the schedules that verification compared side by side."""
    builds_s: dict[int, float] = field(default_factory=dict)
    """Build time of each candidate of this run."""
    _untried: int | None = None
    _counted: set[int] = field(default_factory=set)
    _of_earlier_runs: dict[int, TrialFailure | None] = field(default_factory=dict)
    """Trials of earlier runs of the same job, by number, with their failures."""
    _done_when_loaded: int = 0

    @property
    def exploration_id(self) -> str:
        """The exploration's identity."""
        return self.exploration.exploration_id

    @property
    def comparable_untuned_s(self) -> float | None:
        """The latency of the untuned function, if it is comparable with those of candidates."""
        if self.untuned_latency_s is not None:
            return self.untuned_latency_s
        about_s = self.untuned_about_s
        return about_s if about_s is not None and about_s >= ROUGH_GRAIN_S else None

    @property
    def record_key(self) -> RecordKey:
        """The key of its records."""
        key = self.exploration.key
        return RecordKey(
            workload_id=key.workload_id,
            target_id=key.target_id,
            device_class_id=key.device_class_id,
            code_generator=key.code_generator,
            protocol_id=key.protocol_id,
            abi=key.abi,
        )

    @property
    def was_left_untried(self) -> bool:
        """Whether its job was asked to finish before the first result."""
        return self.stop_reason is StopReason.REQUESTED and not self.trials_done and not self.known

    def measure_task(self) -> MeasureTask:
        """The task as a farm needs it to measure candidates."""
        return MeasureTask(
            exploration_id=self.exploration_id,
            workload_id=self.workload.workload_id,
            module_json=self.workload.module_json,
            target=self.target.canonical,
            num_cores=self.target.num_cores,
            protocol_id=self.exploration.key.protocol_id,
            abi=self.abi,
            is_scheduled=self.exploration.key.space_id == AS_GIVEN,
            input_specs=self.input_specs,
            input_examples=self.input_examples,
            callees=self.callees,
        )

    def add_known(self, known: KnownTrialMessage, *, is_of_job: bool = False) -> None:
        """Add a trial of an earlier run, of this job or another one."""
        self.known.append(known)
        if is_of_job:
            self._count_earlier(known.candidate.number, known.measurement)
        self.untuned_about_s = known.measurement.untuned_about_s or self.untuned_about_s
        candidate = known.candidate
        self.add_candidate(candidate.number, candidate.trace, candidate.origin)
        self.results[known.candidate.number] = known.measurement.result
        if isinstance(known.measurement.result, Timing):
            self._keep_latency(known.candidate.number, known.measurement.result.latency_s)

    def add_candidate(self, number: int, trace: Trace, origin: CandidateOrigin | None = None) -> None:
        """Add a candidate before it is dispatched."""
        self.traces[number] = trace
        if origin is CandidateOrigin.UNTRIED:
            self._untried = number

    @property
    def untried_latency_s(self) -> float | None:
        """Latency in the search of the schedule that was chosen without a trial; None without one."""
        return None if self._untried is None else self.latencies_s.get(self._untried)

    @property
    def untried_trace(self) -> Trace | None:
        """That schedule; None without one."""
        return None if self._untried is None else self.traces.get(self._untried)

    def add_accuracy(self, accuracy: ModelAccuracy) -> None:
        """Add an accuracy of the model. The search reports the latest one repeatedly."""
        if accuracy not in self.model_accuracy[-1:]:
            self.model_accuracy.append(accuracy)

    def disbelief(self, latency_s: float) -> TrialFailure | None:
        """Why a latency is impossible for this function; None if it is possible. Workers are not trusted."""
        return disbelief(latency_s, least_latency_s(self.least_work, self.target.canonical, self.target.num_cores))

    def believed(self, measurement: Measurement) -> Measurement:
        """The measurement, as failed if its latency is impossible."""
        result = measurement.result
        doubt = self.disbelief(result.latency_s) if isinstance(result, Timing) else None
        return measurement if doubt is None else measurement.model_copy(update={"result": Failed(failure=doubt)})

    def measured(self, measurement: Measurement, elapsed_s: float) -> bool:
        """Add a result of this run. Returns whether it is a new incumbent."""
        result = measurement.result
        self.untuned_about_s = measurement.untuned_about_s or self.untuned_about_s
        if isinstance(result, Failed) and result.failure.reason is FailureReason.CANCELED:
            return False
        if measurement.candidate_number not in self._counted:
            self._counted.add(measurement.candidate_number)
            self._of_earlier_runs.pop(measurement.candidate_number, None)
            self.trials_done += 1
        self.builds_s[measurement.candidate_number] = measurement.stages.build_s
        if measurement.came_to_an_end or measurement.candidate_number not in self.results:
            self.results[measurement.candidate_number] = result
        if isinstance(result, Failed):
            self.failures[result.failure.reason.value] += 1
            self.first_failure_message = self.first_failure_message or result.failure.message
        if not isinstance(result, Timing):
            if measurement.came_to_an_end:
                self._forget_latency(measurement.candidate_number)
            return False
        if not self._keep_latency(measurement.candidate_number, result.latency_s):
            return False
        trace = self.traces[measurement.candidate_number]
        self.improvements.append(
            Improvement(elapsed_s=elapsed_s, trials=self.trials_done, latency_s=result.latency_s, trace=trace.text)
        )
        return True

    def add_recorded(self, trace: Trace, latency_s: float, elapsed_s: float) -> None:
        """Add the recorded schedule as an improvement, unless it is the last incumbent of the search."""
        if self.improvements and self.improvements[-1].trace != trace.text:
            self.improvements.append(
                Improvement(
                    elapsed_s=elapsed_s,
                    trials=self.trials_done,
                    latency_s=latency_s,
                    trace=trace.text,
                    is_verified=True,
                )
            )

    def forget_known(self) -> None:
        """Drop the known trials before they are reloaded together with those of this run."""
        self.known.clear()
        self._of_earlier_runs.clear()
        self._done_when_loaded = self.trials_done

    def forget_earlier_runs(self) -> None:
        """Count only the trials of this run as the job's."""
        self._of_earlier_runs.clear()

    @property
    def trials_of_job(self) -> int:
        """Number of trials, over all runs of this job."""
        return self.trials_done + len(self._of_earlier_runs)

    @property
    def failures_of_job(self) -> Counter[str]:
        """Failures by reason, over all runs of this job."""
        earlier = (failure.reason.value for failure in self._of_earlier_runs.values() if failure is not None)
        return self.failures + Counter(earlier)

    def is_of_job(self, number: int) -> bool:
        """Whether a run of this job measured the candidate."""
        return number in self._counted or number in self._of_earlier_runs

    @property
    def trials_in_store(self) -> int:
        """Number of trials of all jobs. ``exploration.spent`` includes this run's trials up to the last load."""
        return self.exploration.spent.trials + self.trials_done - self._done_when_loaded

    def fastest(self, count: int) -> list[Trace]:
        """The traces with the lowest latencies, fastest first."""
        ranked = sorted(self.latencies_s, key=lambda number: self.latencies_s[number])
        return [self.traces[number] for number in ranked[:count]]

    def latencies_of(self, trace: Trace) -> list[float]:
        """The latencies of a schedule in the search; empty if it has none."""
        return [latency_s for number, latency_s in self.latencies_s.items() if self.traces[number] == trace]

    def build_s_of(self, trace: Trace) -> float | None:
        """Build time of a schedule in this run; None if it was not built."""
        return max((build_s for number, build_s in self.builds_s.items() if self.traces[number] == trace), default=None)

    @property
    def typical_build_s(self) -> float | None:
        """Median build time of this run; None before the first build."""
        return median(self.builds_s.values()) if self.builds_s else None

    def note_untuned(self, latency_s: float, *, is_estimate: bool = False) -> None:
        """Set the latency of the untuned function."""
        self.untuned_latency_s, self.untuned_is_estimate = latency_s, is_estimate

    def _count_earlier(self, number: int, measurement: Measurement) -> None:
        failure = measurement.result.failure if isinstance(measurement.result, Failed) else None
        was_canceled = failure is not None and failure.reason is FailureReason.CANCELED
        if number in self._counted or was_canceled:
            return
        self._of_earlier_runs[number] = failure
        if failure is not None:
            self.first_failure_message = self.first_failure_message or failure.message

    def _keep_latency(self, number: int, latency_s: float) -> bool:
        """Set the latency of a candidate. Returns whether it is a new minimum."""
        before_s = self.best_latency_s
        self._forget_latency(number)
        self.latencies_s[number] = latency_s
        self.best_latency_s = latency_s if self.best_latency_s is None else min(self.best_latency_s, latency_s)
        return before_s is None or latency_s < before_s

    def _forget_latency(self, number: int) -> None:
        """Drop the latency of a candidate, once its second attempt has a result: the first one is in doubt."""
        forgotten_s = self.latencies_s.pop(number, None)
        if forgotten_s is not None and forgotten_s == self.best_latency_s:
            self.best_latency_s = min(self.latencies_s.values(), default=None)
