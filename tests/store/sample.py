"""Small sample objects for tests of the store."""

from dataclasses import dataclass, replace

from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.tuning.device import Device, DeviceClass, ReferenceKernelTimes
from tunefarm_schemas.tuning.job import Effort, ExplorationKey, Job, JobSpec
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
from tunefarm_schemas.tuning.record import RecordKey, RecordStatus, TuningRecord
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Task, TensorArgument, Workload
from tunefarm_services.store import Lease, Store

TENANT = "local"
TARGET = Target(canonical='{"kind":"llvm","num-cores":2}', kind="llvm", num_cores=2)
DEVICE = Device(
    fingerprint="host-1",
    host_name="host",
    device_class=DeviceClass(
        kind="cpu",
        vendor="v",
        family="6",
        model="1",
        stepping="0",
        name="cpu",
        isa_flags_digest="00",
        caches_bytes=(1, 2),
        cores=2,
        compute_bucket=1,
        bandwidth_bucket=2,
        launch_bucket=3,
    ),
    reference=ReferenceKernelTimes(compute_s=1e-3, bandwidth_s=2e-3, launch_s=3e-6),
)


def workload(text: str = "module", *, name: str = "matmul", extent: int = 128) -> Workload:
    module_json = f'{{"module": "{text}"}}'
    return Workload(
        workload_id=digest(module_json),
        structural_hash=str(hash_of(text)),
        tvm_version="0.27.0",
        module_json=module_json,
        name=name,
        arguments=(TensorArgument(name="A", shape=(extent, extent), dtype="float32", is_output=False),),
        floating_point_operations=2.0 * extent**3,
    )


def hash_of(text: str) -> int:
    return int(digest(text)[:12], 16)


def put_task(store: Store, text: str = "module", *, tenant: str = TENANT) -> Task:
    stored = store.workloads.put(tenant, workload(text))
    store.targets.put(tenant, TARGET)
    return Task(workload_id=stored.workload_id, target_id=TARGET.target_id, name=stored.name)


def spec(*tasks: Task, priority: int = 0, **labels: str) -> JobSpec:
    return JobSpec(
        tasks=tasks, effort=Effort(trials=10), protocol_id="cpu-hot-cache/1", priority=priority, labels=labels
    )


def put_job(store: Store, text: str = "module", *, priority: int = 0, **labels: str) -> Job:
    return store.jobs.create(TENANT, spec(put_task(store, text), priority=priority, **labels))


def leased(store: Store, job: Job | None = None, *, owner: str = "tuner", seconds: float = 60.0) -> Lease:
    if job is None:
        lease = store.queue.lease_next(owner, seconds)
    else:
        lease = store.leases.acquire(TENANT, job.job_id, owner, seconds)
    assert lease is not None
    return lease


def exploration_key(text: str = "module", *, tenant: str = TENANT) -> ExplorationKey:
    return ExplorationKey(
        tenant=tenant,
        workload_id=workload(text).workload_id,
        target_id=TARGET.target_id,
        device_class_id=DEVICE.device_class.device_class_id,
        code_generator="tvm+llvm",
        protocol_id="cpu-hot-cache/1",
        space_id="automatic",
        abi="stable",
    )


def record_key(text: str = "module", **changes: str) -> RecordKey:
    key = exploration_key(text).model_dump(include=set(RecordKey.model_fields))
    return RecordKey.model_validate(key | changes)


def record(
    record_id: str,
    latency_s: float,
    *,
    key: RecordKey | None = None,
    status: RecordStatus = RecordStatus.VERIFIED,
    tenant: str = TENANT,
) -> TuningRecord:
    return TuningRecord(
        record_id=record_id,
        tenant=tenant,
        key=key or record_key(),
        trace=Trace(text="[[],[]]"),
        latency_s=latency_s,
        interval_s=None,
        untuned_latency_s=1.0,
        status=status,
        status_reason="",
        source="tuned",
        exploration_id=None,
        created_at=utc_now(),
    )


def manifest(artifact_id: str, record_id: str, library: bytes) -> ArtifactManifest:
    key = record_key()
    return ArtifactManifest(
        schema_version=1,
        artifact_id=artifact_id,
        record_id=record_id,
        workload_id=key.workload_id,
        workload_name="matmul",
        arguments=workload().arguments,
        target=TARGET.canonical,
        num_cores=2,
        device_class_id=key.device_class_id,
        code_generator=key.code_generator,
        protocol_id=key.protocol_id,
        abi="stable",
        entry="main",
        pack_entry=None,
        packed_arguments=(),
        trace_id="t",
        latency_s=1e-3,
        interval_s=(0.9e-3, 1.1e-3),
        library_digest=digest(library),
        library_name="kernel.so",
        created_at=utc_now(),
    )


def failed(reason: FailureReason, *, under_load: bool = False) -> Failed:
    return Failed(failure=TrialFailure(reason=reason, message="why", under_load=under_load))


def timing(latency_s: float) -> Timing:
    return Timing(latency_s=latency_s, samples_s=(latency_s, latency_s))


@dataclass(frozen=True)
class Bench:
    """A held exploration with methods to send and measure candidates."""

    store: Store
    lease: Lease
    exploration_id: str

    def candidate(self, number: int, trace: str = "") -> Candidate:
        return Candidate(
            exploration_id=self.exploration_id,
            number=number,
            trace=Trace(text=trace or f"[[],[{number}]]"),
            module_hash=str(number),
            origin=CandidateOrigin.RANDOM,
            predicted_score=0.5,
        )

    def dispatch(self, number: int, *, attempt: int = 1, purpose: Purpose = Purpose.SEARCH) -> Dispatch:
        return Dispatch(
            dispatch_id=f"{self.lease.job_id} {number}.{attempt}.{purpose}.{self.lease.fence}",
            nonce=f"nonce {number}.{attempt}.{purpose}.{self.lease.fence}",
            fence=self.lease.fence,
            attempt=attempt,
            purpose=purpose,
            candidate=self.candidate(number),
        )

    def send(self, number: int, *, attempt: int = 1, purpose: Purpose = Purpose.SEARCH) -> Dispatch:
        dispatch = self.dispatch(number, attempt=attempt, purpose=purpose)
        new = [dispatch.candidate] if attempt == 1 and purpose is Purpose.SEARCH else []
        self.store.trials.put(self.lease, new, [dispatch])
        return dispatch

    def commit(self, dispatch: Dispatch, result: Result) -> list[Measurement]:
        return self.store.measurements.commit(self.lease, [measurement(dispatch, result)])

    def measure(self, number: int, result: Result) -> list[Measurement]:
        return self.commit(self.send(number), result)

    def taken_over(self, owner: str = "successor") -> "Bench":
        """The same exploration, taken over by the next owner of the job."""
        self.store.leases.release(self.lease)
        lease = self.store.leases.acquire(self.lease.tenant, self.lease.job_id, owner, 60.0)
        assert lease is not None
        assert self.store.explorations.hold(lease, self.exploration_id)
        return replace(self, lease=lease)


def measurement(dispatch: Dispatch, result: Result) -> Measurement:
    stages = Stages(build_s=0.1)
    return Measurement.answering(dispatch, result, stages, device_fingerprint=DEVICE.fingerprint)


def bench(store: Store, job: Job | None = None) -> Bench:
    return _bench(store, leased(store, job or put_job(store)))


def bench_of(store: Store, tenant: str) -> Bench:
    """A job of a tenant that holds the exploration of the sample function."""
    return _bench(store, lease_of(store, tenant))


def lease_of(store: Store, tenant: str) -> Lease:
    """The lease of a job of a tenant for the sample function, without its exploration."""
    job = store.jobs.create(tenant, spec(put_task(store, tenant=tenant)))
    lease = store.leases.acquire(tenant, job.job_id, "tuner", 60.0)
    assert lease is not None
    return lease


def _bench(store: Store, lease: Lease) -> Bench:
    exploration = store.explorations.open(lease, exploration_key(tenant=lease.tenant))
    assert store.explorations.hold(lease, exploration.exploration_id)
    return Bench(store, lease, exploration.exploration_id)
