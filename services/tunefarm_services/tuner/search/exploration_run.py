"""One exploration while a job works on it: what was known, what is new, and the best so far."""

from collections import Counter
from dataclasses import dataclass, field
from statistics import median

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_schemas.tuning.job import Exploration, StopReason
from tunefarm_schemas.tuning.least_work import LeastWork, disbelief, least_latency_s
from tunefarm_schemas.tuning.measurement import Failed, Measurement, MeasureTask, Result, Timing
from tunefarm_schemas.tuning.record import RecordKey
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Abi, Task, Workload
from tunefarm_services.tuner.search.search_messages import KnownTrialMessage
from tunefarm_services.tuner.summary import Improvement, ModelAccuracy

ROUGH_GRAIN_S = 5e-5
"""A single call that finds caches cold takes microseconds whatever it computes. What was seen of a shorter function in
one call says nothing beside times of many calls."""
AS_GIVEN = "as-given"
"""Id of the space that holds nothing but the module itself."""


@dataclass
class ExplorationRun:
    """Mutable state of one exploration inside one run of a job. Only its supervisor changes it."""

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
    """Whether ``untuned_latency_s`` follows from a part of the function's steps."""
    untuned_about_s: float | None = None
    """A rough figure, for as long as the untuned function was not timed beside the tuned ones."""
    stop_reason: StopReason | None = None
    refusal: str = ""
    """Why most of the search's schedules were refused before any was measured."""
    samples_s: tuple[float, ...] = ()
    least_work: LeastWork = field(default_factory=LeastWork)
    """What every schedule has to do; nothing where no search was begun that would know."""
    results: dict[int, Result] = field(default_factory=dict)
    model_accuracy: list[ModelAccuracy] = field(default_factory=list)
    compared_s: dict[Trace, float] = field(default_factory=dict)
    """What schedules took side by side, when the end of the search was verified."""
    builds_s: dict[int, float] = field(default_factory=dict)
    """What it took in this run to build each candidate."""
    _counted: set[int] = field(default_factory=set)
    _of_earlier_runs: dict[int, TrialFailure | None] = field(default_factory=dict)
    """Trials that earlier runs of the same job made, each with its failure."""
    _done_when_loaded: int = 0

    @property
    def exploration_id(self) -> str:
        """The exploration's identity."""
        return self.exploration.exploration_id

    @property
    def untuned_to_show_s(self) -> float | None:
        """What the untuned function takes, as far as that may be set beside what candidates take."""
        if self.untuned_latency_s is not None:
            return self.untuned_latency_s
        about_s = self.untuned_about_s
        return about_s if about_s is not None and about_s >= ROUGH_GRAIN_S else None

    @property
    def record_key(self) -> RecordKey:
        """The key under which its records may be reused."""
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
        """Whether its job was asked to finish before anything that was tried came back."""
        return self.stop_reason is StopReason.REQUESTED and not self.trials_done and not self.known

    def measure_task(self) -> MeasureTask:
        """What a farm must know of this exploration."""
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

    def remember(self, known: KnownTrialMessage, *, is_of_job: bool = False) -> None:
        """Take in a trial of an earlier run, of this job or of another one."""
        self.known.append(known)
        if is_of_job:
            self._count_earlier(known.candidate.number, known.measurement)
        self.untuned_about_s = known.measurement.untuned_about_s or self.untuned_about_s
        self.proposed(known.candidate.number, known.candidate.trace)
        self.results[known.candidate.number] = known.measurement.result
        if isinstance(known.measurement.result, Timing):
            self._keep_latency(known.candidate.number, known.measurement.result.latency_s)

    def proposed(self, number: int, trace: Trace) -> None:
        """Take in a candidate that is about to be dispatched."""
        self.traces[number] = trace

    def note_accuracy(self, accuracy: ModelAccuracy) -> None:
        """Take in how well the model placed new trials; the search tells the last figure again and again."""
        if accuracy not in self.model_accuracy[-1:]:
            self.model_accuracy.append(accuracy)

    def disbelief(self, latency_s: float) -> TrialFailure | None:
        """Why a time cannot be one of this function, whoever says so; None where it may be."""
        return disbelief(latency_s, least_latency_s(self.least_work, self.target.canonical, self.target.num_cores))

    def believed(self, measurement: Measurement) -> Measurement:
        """``measurement``, or its failure where no kernel can have the time that it tells."""
        result = measurement.result
        doubt = self.disbelief(result.latency_s) if isinstance(result, Timing) else None
        return measurement if doubt is None else measurement.model_copy(update={"result": Failed(failure=doubt)})

    def measured(self, measurement: Measurement, elapsed_s: float) -> bool:
        """Take in a result of this run; whether it is a new incumbent."""
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

    def concluded(self, trace: Trace, latency_s: float, elapsed_s: float) -> None:
        """Note what was recorded in the end, where that is not the last incumbent of the search."""
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
        """Drop the earlier trials, to be loaded anew together with those of this run."""
        self.known.clear()
        self._of_earlier_runs.clear()
        self._done_when_loaded = self.trials_done

    def forget_earlier_runs(self) -> None:
        """Count no trials but those of this run as the job's."""
        self._of_earlier_runs.clear()

    @property
    def trials_of_job(self) -> int:
        """Trials of every run of this job."""
        return self.trials_done + len(self._of_earlier_runs)

    @property
    def failures_of_job(self) -> Counter[str]:
        """How often each reason occurred, over every run of this job."""
        earlier = (failure.reason.value for failure in self._of_earlier_runs.values() if failure is not None)
        return self.failures + Counter(earlier)

    def is_of_job(self, number: int) -> bool:
        """Whether a run of this job measured the candidate."""
        return number in self._counted or number in self._of_earlier_runs

    @property
    def trials_in_store(self) -> int:
        """Trials of every run; the exploration as it was loaded last counts those of this run until then."""
        return self.exploration.spent.trials + self.trials_done - self._done_when_loaded

    def fastest(self, count: int) -> list[Trace]:
        """The traces of the ``count`` lowest latencies, fastest first."""
        ranked = sorted(self.latencies_s, key=lambda number: self.latencies_s[number])
        return [self.traces[number] for number in ranked[:count]]

    def latencies_of(self, trace: Trace) -> list[float]:
        """What the schedule of ``trace`` took in the search, in seconds; empty where it was not measured there."""
        return [latency_s for number, latency_s in self.latencies_s.items() if self.traces[number] == trace]

    def build_s_of(self, trace: Trace) -> float | None:
        """What it took in this run to build a schedule; None where it was not built."""
        return max((build_s for number, build_s in self.builds_s.items() if self.traces[number] == trace), default=None)

    @property
    def typical_build_s(self) -> float | None:
        """What it takes to build a schedule; None where none was built in this run."""
        return median(self.builds_s.values()) if self.builds_s else None

    def note_untuned(self, latency_s: float, *, is_estimate: bool = False) -> None:
        """Take in what the untuned function takes."""
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
        """Take in a time; whether it is less than any before."""
        before_s = self.best_latency_s
        self._forget_latency(number)
        self.latencies_s[number] = latency_s
        self.best_latency_s = latency_s if self.best_latency_s is None else min(self.best_latency_s, latency_s)
        return before_s is None or latency_s < before_s

    def _forget_latency(self, number: int) -> None:
        """A first time is believed no longer once the candidate was sent again."""
        forgotten_s = self.latencies_s.pop(number, None)
        if forgotten_s is not None and forgotten_s == self.best_latency_s:
            self.best_latency_s = min(self.latencies_s.values(), default=None)
