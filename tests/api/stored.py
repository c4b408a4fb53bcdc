"""A tenant with one object of each kind, each marked with the tenant's name."""

from dataclasses import dataclass
from typing import Any

from tuf.api.metadata import Metadata, TargetFile, Targets

from tests.fleet.sample import FACTS, document
from tests.store.sample import DEVICE, TARGET, Bench, exploration_key, failed, manifest, record, timing, workload
from tests.store.sample import record_key as sample_key
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.edge.device import EnrolmentRequest
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.farm.lane import Lane, LaneState
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.bundle import BundleManifest, BundleOrder
from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_schemas.tuning.job import Effort, Job, JobOutcome, JobSpec, JobState, StopReason
from tunefarm_schemas.tuning.model import ModelEntry
from tunefarm_schemas.tuning.record import RecordKey, RecordStatus, TuningRecord
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Task
from tunefarm_schemas.views.jobs.summary import Improvement, JobSummary, TaskSummary
from tunefarm_services.store import Lease, Store
from tunefarm_services.store.fleet.audit_repository import Actor
from tunefarm_services.store.releases.release_repository import AcceptedPublication, named_target

BUNDLE = BundleManifest(
    format=3,
    name="model_x",
    form="c",
    target="{}",
    num_cores=1,
    framework="tvm",
    code_generator="tvm",
    tunefarm_version="0",
    tvm_version="0",
    entry=ModelEntry(name="main", inputs=(), outputs=(), is_tuple=False),
    functions=(),
    weights_bytes=0,
    arena_bytes=0,
    vectors=(),
    tolerance=0.0,
    files=(),
)
LIBRARY = b"\x7fELF the library"


def put_job(store: Store, tenant: str, text: str = "module") -> Job:
    stored = store.workloads.put(tenant, workload(f"{text} of {tenant}", name=f"matmul_{tenant}"))
    store.targets.put(tenant, TARGET)
    task = Task(workload_id=stored.workload_id, target_id=TARGET.target_id, name=stored.name)
    labels = {"owner": f"label of {tenant}"}
    spec = JobSpec(tasks=(task,), effort=Effort(trials=10), protocol_id=HOT_CACHE.protocol_id, labels=labels)
    return store.jobs.create(tenant, spec)


@dataclass(frozen=True)
class Belongings:
    """Ids of a tenant's objects, by their names in paths."""

    job_id: str
    workload_id: str
    target_id: str
    record_id: str
    artifact_id: str
    bundle_id: str
    upload_id: str
    token_id: str
    exploration_id: str
    code_id: str
    edge_device_id: str
    name: str
    """Of a channel."""
    lease: Lease
    bench: Bench
    sha256: str
    """Of a released file."""
    file_name: str = "timestamp.json"
    runner_file: str = "stable.runner"
    """Of metadata, and of a target of a channel."""


def put_release(store: Store, tenant: str) -> str:
    """Put into a tenant's repository one file, one target and one metadata file; returns the file's digest."""
    content = f"file of {tenant}".encode()
    store.releases.declare(tenant, digest(content), len(content))
    store.releases.append(tenant, digest(content), 0, content)
    runner = TargetFile.from_data("channels/stable.runner", content, ["sha256"])
    channel = Metadata(Targets(targets={runner.path: runner})).to_bytes()
    metadata = {("timestamp", 1): b"{}", ("channel-stable", 1): channel}
    targets = {"channels/timestamp.json": b"{}", named_target(runner): content}
    accepted = AcceptedPublication(metadata, targets, 1, 1, "timestamp 1")
    store.releases.publish(tenant, "token", lambda _stored: accepted, lambda _connection, _document: None)
    return digest(content)


def put_record(store: Store, tenant: str, module_json: str, trace: Any, record_id: str = "record") -> TuningRecord:
    """A record of any module with any trace, neither of which was looked at."""
    made = workload().model_copy(update={"module_json": module_json, "workload_id": digest(module_json)})
    store.workloads.put(tenant, made)
    store.targets.put(tenant, TARGET)
    key = sample_key(workload_id=made.workload_id)
    kept = record(record_id, 1e-3, key=key, tenant=tenant).model_copy(update={"trace": Trace.from_json(trace)})
    store.records.put(tenant, None, kept)
    return kept


def put_bundle(store: Store, tenant: str, record_id: str) -> str:
    """A bundle that was built, named after the tenant."""
    order = BundleOrder(name=f"of {tenant}", form="c", record_ids=(record_id,))
    bundle_id = store.bundles.create(tenant, order).bundle_id
    lease = store.bundles.lease_next("builder", 60.0)
    assert lease is not None
    store.bundles.finish(lease, BUNDLE.model_copy(update={"name": f"of {tenant}"}), f"archive of {tenant}".encode())
    return bundle_id


def furnished(store: Store, tenant: str) -> Belongings:
    job = put_job(store, tenant)
    lease = store.leases.acquire(tenant, job.job_id, "tuner", 60.0)
    assert lease is not None
    key = exploration_key(f"module of {tenant}", tenant=tenant)
    exploration = store.explorations.open(lease, key)
    assert store.explorations.hold(lease, exploration.exploration_id)
    bench = Bench(store, lease, exploration.exploration_id)
    bench.measure(0, timing(2e-3))
    bench.measure(1, failed(FailureReason.CRASH))
    record_key = RecordKey.model_validate(key.model_dump(include=set(RecordKey.model_fields)))
    kept = record(f"record-{tenant}", 1e-3, key=record_key, tenant=tenant, status=RecordStatus.VERIFIED)
    store.records.put(tenant, lease, kept.model_copy(update={"status_reason": f"reason of {tenant}"}))
    store.artifacts.put(tenant, manifest(f"artifact-{tenant}", kept.record_id, LIBRARY), LIBRARY)
    upload = store.uploads.create(tenant, 10)
    token, _ = store.tokens.create(tenant, f"secret token of {tenant}", (Scope.JOBS_READ,))
    store.usage.add(lease, record_key.device_class_id, 12.5, 2)
    actor = Actor(tenant, None, 1_800_000_000.0)
    _, text = store.enrolments.create_code(actor, f"of-{tenant}", {}, actor.now_s + 1)
    device = store.enrolments.enrol(EnrolmentRequest(code=text, name=f"device of {tenant}", facts=FACTS), actor.now_s)
    assert device is not None
    store.rollouts.announce(actor, document(channel=f"of-{tenant}"))
    code, _ = store.enrolments.create_code(actor, f"of-{tenant}", {}, actor.now_s + 1)
    return Belongings(
        job_id=job.job_id,
        workload_id=key.workload_id,
        target_id=key.target_id,
        record_id=kept.record_id,
        artifact_id=f"artifact-{tenant}",
        bundle_id=put_bundle(store, tenant, kept.record_id),
        upload_id=upload.upload_id,
        token_id=token.token_id,
        exploration_id=exploration.exploration_id,
        code_id=code.code_id,
        edge_device_id=device.edge_device_id,
        name=f"of-{tenant}",
        lease=lease,
        bench=bench,
        sha256=put_release(store, tenant),
    )


def summarize(store: Store, mine: Belongings, latency_s: float, interval_s: tuple[float, float]) -> None:
    """End the search of a tenant's job with one improvement after two of four seconds."""
    improved = Improvement(elapsed_s=2.0, trials=1, latency_s=latency_s, trace="[]")
    task = TaskSummary(
        name="matmul",
        exploration_id=mine.exploration_id,
        best_latency_s=latency_s,
        untuned_latency_s=8e-3,
        interval_s=interval_s,
        record_id=mine.record_id,
        artifact_id=None,
        trials=2,
        trials_in_store=2,
        stop_reason=StopReason.TRIALS,
        improvements=(improved,),
        failures={"crash": 1},
        first_failure_message="",
        answered_from_store=False,
    )
    outcome = JobOutcome.SUCCEEDED
    summary = JobSummary(job_id=mine.job_id, outcome=outcome, message="", tasks=(task,), seconds={"total": 4.0})
    store.jobs.set_state(mine.lease, JobState.FINISHED, outcome)
    store.events.append(mine.lease, "summary", summary.model_dump(mode="json"))


def lane(lane_id: str = "host-7/cpu-0", state: LaneState = LaneState.READY) -> Lane:
    return Lane(
        lane_id=lane_id,
        worker_name="worker@secret-host",
        host_name="secret-host",
        device=DEVICE,
        code_generator="tvm+llvm",
        kind="cpu",
        tvm_version="0.27.0",
        protocol_version=1,
        software_version="0.1.0",
        state=state,
        reason="",
        cores=(0, 1),
        room=2,
        in_flight=1,
        started_at=utc_now(),
        seen_at=utc_now(),
    )
