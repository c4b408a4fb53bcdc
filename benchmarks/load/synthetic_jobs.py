"""Synthetic finished jobs with trials and events, created through the store's port."""

import random
from typing import Final

from benchmarks.store.synthetic_records import TENANT, SyntheticRecords
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.job import Effort, ExplorationKey, Job, JobOutcome, JobSpec, JobState
from tunefarm_schemas.tuning.measurement import (
    Candidate,
    CandidateOrigin,
    Dispatch,
    Failed,
    Measurement,
    Purpose,
    Result,
    Stages,
    Timing,
)
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Task, TensorArgument, Workload
from tunefarm_services.store import Lease, Store

TARGET: Final = Target(canonical='{"kind":"llvm","num-cores":2}', kind="llvm", num_cores=2)
_EVENTS: Final = 40
_LEASE_S: Final = 600.0


class SyntheticJobs:
    """Puts finished jobs into ``store``, of the same tenant as the synthetic records, with traces as long as theirs."""

    def __init__(self, store: Store, made: SyntheticRecords) -> None:
        self._store = store
        self._traces = [str(row[8]) for row, _ in zip(made.chunk(0), range(500), strict=False)]
        self._chance = random.Random(0)
        store.targets.put(TENANT, TARGET)

    def put(self, number: int, trials: int) -> tuple[str, str]:
        """Store a finished job with ``trials`` trials; return the ids of the job and of its exploration."""
        job = self.queue(number, trials)
        lease = self._store.leases.acquire(TENANT, job.job_id, "made", _LEASE_S)
        assert lease is not None
        exploration = self._store.explorations.open(lease, _key(job.spec.tasks[0]))
        assert self._store.explorations.hold(lease, exploration.exploration_id)
        self.measure(lease, exploration.exploration_id, trials)
        self._finish(lease, job, trials)
        self._store.leases.release(lease)
        return job.job_id, exploration.exploration_id

    def queue(self, number: int, trials: int = 1) -> Job:
        """Store a queued job."""
        workload = self._store.workloads.put(TENANT, _workload(number))
        return self._store.jobs.create(TENANT, _spec(workload, trials))

    def measure(self, lease: Lease, exploration_id: str, trials: int) -> None:
        """Store ``trials`` trials with their results."""
        dispatches = [self._dispatch(lease, exploration_id, number) for number in range(trials)]
        self._store.trials.put(lease, [dispatch.candidate for dispatch in dispatches], dispatches)
        self._store.measurements.commit(lease, [self._measurement(dispatch) for dispatch in dispatches])

    def _dispatch(self, lease: Lease, exploration_id: str, number: int) -> Dispatch:
        candidate = Candidate(
            exploration_id=exploration_id,
            number=number,
            trace=Trace(text=self._chance.choice(self._traces)),
            module_hash=str(self._chance.getrandbits(63)),
            origin=CandidateOrigin.EVOLVED,
            predicted_score=self._chance.random(),
        )
        identity = f"{exploration_id} {number}"
        return Dispatch(
            dispatch_id=digest(identity)[:32],
            nonce=digest(f"nonce of {identity}")[:32],
            fence=lease.fence,
            attempt=1,
            purpose=Purpose.SEARCH,
            candidate=candidate,
        )

    def _measurement(self, dispatch: Dispatch) -> Measurement:
        return Measurement.answering(dispatch, self._result(), Stages(build_s=0.1), device_fingerprint="made")

    def _result(self) -> Result:
        if self._chance.random() < 0.05:
            failure = TrialFailure(reason=FailureReason.BUILD_ERROR, message="register pressure: " + "spill " * 20)
            return Failed(failure=failure)
        latency_s = self._chance.lognormvariate(-7.0, 0.8)
        samples_s = (latency_s, *(latency_s * self._chance.uniform(0.99, 1.03) for _ in range(9)))
        return Timing(latency_s=latency_s, samples_s=samples_s)

    def _finish(self, lease: Lease, job: Job, trials: int) -> None:
        for number in range(_EVENTS):
            progress = {"stage": "search", "trials_done": number * trials // _EVENTS, "trials_budget": trials}
            self._store.events.append(lease, "progress", {**progress, "task": job.spec.tasks[0].name})
        self._store.jobs.set_state(lease, JobState.FINISHED, JobOutcome.SUCCEEDED, "synthetic")
        self._store.events.append(lease, "summary", {"outcome": "succeeded", "tasks": []})


def _workload(number: int) -> Workload:
    module_json = f'{{"made": {number}}}'
    shape = (128, 128 + number)
    return Workload(
        workload_id=digest(module_json),
        structural_hash=str(number),
        tvm_version="0.27.0.post1",
        module_json=module_json,
        name="matmul",
        arguments=tuple(
            TensorArgument(name=name, shape=shape, dtype="float32", is_output=name == "C") for name in ("A", "B", "C")
        ),
        floating_point_operations=2.0 * 128 * 128 * shape[1],
    )


def _spec(workload: Workload, trials: int) -> JobSpec:
    task = Task(workload_id=workload.workload_id, target_id=TARGET.target_id, name=workload.name)
    return JobSpec(
        tasks=(task,),
        effort=Effort(trials=max(trials, 1)),
        protocol_id="cpu-hot-cache/1",
        labels={"model": f"made-{workload.workload_id[:4]}"},
    )


def _key(task: Task) -> ExplorationKey:
    return ExplorationKey(
        tenant=TENANT,
        workload_id=task.workload_id,
        target_id=task.target_id,
        device_class_id=digest("device class 0"),
        code_generator="tvm-0.27.0.post1+llvm-22.1",
        protocol_id="cpu-hot-cache/1",
        space_id="automatic",
        abi="stable",
    )
