"""One complete example of every type. Run as a module, it rewrites the golden files."""

from pathlib import Path

from tests.schemas.edge_nouns import EDGE_NOUNS
from tests.schemas.farm_nouns import farm_nouns
from tests.schemas.model_nouns import MODEL_NOUNS
from tunefarm_schemas import SCHEMA_VERSION
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.lane import Lane, LaneState, ReferenceCheck
from tunefarm_schemas.farm.processor import Processor
from tunefarm_schemas.frozen import Frozen, canonical_json
from tunefarm_schemas.refusal import Refusal
from tunefarm_schemas.roofline import Bandwidth, DevicePeaks, Roofline, Work
from tunefarm_schemas.token import Scope, Token
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.tuning.device import Device, DeviceClass, Environment, Protocol, ReferenceKernelTimes
from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_schemas.tuning.job import (
    Effort,
    EffortSpent,
    Event,
    Exploration,
    ExplorationKey,
    Job,
    JobOutcome,
    JobSpec,
    JobState,
    StopReason,
)
from tunefarm_schemas.tuning.least_work import LeastWork
from tunefarm_schemas.tuning.measurement import (
    Candidate,
    CandidateOrigin,
    Comparison,
    ComparisonOrder,
    Dispatch,
    Exported,
    ExportOrder,
    Failed,
    Measurement,
    MeasureTask,
    Purpose,
    Stages,
    Stopped,
    Timing,
)
from tunefarm_schemas.tuning.record import MatchKind, RecordKey, RecordMatch, RecordStatus, TuningRecord
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Sketch, Space, Trace
from tunefarm_schemas.tuning.workload import Task, TensorArgument, Workload
from tunefarm_schemas.upload import Upload
from tunefarm_schemas.usage import FarmOverview, TenantOverview, Usage

GOLDENS = Path(__file__).parents[1] / "goldens"

_AT = "2026-01-02T03:04:05.000006+00:00"
_ARGUMENT = TensorArgument(name="A", shape=(1, 128), dtype="float16", is_output=False)
_WORK = Work(moved_bytes=98304, dtype="float32")
_BANDWIDTH = Bandwidth(size_bytes=16384, one_thread_bytes_per_s=1e11, all_threads_bytes_per_s=2e11)
_PEAKS = DevicePeaks(cores=2, float32_operations_per_s=1.5e11, bandwidths=(_BANDWIDTH,))
_PACKED = TensorArgument(name="B_packed", shape=(8, 128, 16), dtype="float16", is_output=False)
_WORKLOAD = Workload(
    workload_id="0a",
    structural_hash="12345678901234567890",
    tvm_version="0.27.0.post1",
    module_json='{"root_index":1}',
    name="matmul",
    arguments=(_ARGUMENT,),
    floating_point_operations=4194304.0,
    work=_WORK,
)
_TASK = Task(workload_id="0a", target_id="0b", name="matmul", weight=2.5)
_TARGET = Target(canonical='{"kind":"llvm","num-cores":2}', kind="llvm", num_cores=2)
_TRACE = Trace.from_json([[["GetBlock", [], ["matmul", "main"], ["b0"]]], [[0, [8, 16]]]])
_SKETCH = Sketch(text='[["GetBlock",[],["matmul","main"],["b0"]]]')
_SPACE = Space(automatic=False, sketches=(_SKETCH,))
_REFERENCE = ReferenceKernelTimes(compute_s=0.001, bandwidth_s=0.002, launch_s=3e-06)
_CLASS = DeviceClass(
    kind="cpu",
    vendor="GenuineIntel",
    family="6",
    model="143",
    stepping="8",
    name="a processor",
    isa_flags_digest="0c",
    caches_bytes=(32768, 2097152),
    cores=2,
    compute_bucket=-3,
    bandwidth_bucket=4,
    launch_bucket=5,
)
_DEVICE = Device(fingerprint="0f", host_name="host", device_class=_CLASS, reference=_REFERENCE, peaks=_PEAKS)
_OVERVIEW = TenantOverview(
    tenant="local",
    queued=2,
    running=1,
    paused=0,
    oldest_queued_at=_AT,
    open_jobs_limit=1000,
    device_seconds_today=12.5,
    recent_device_seconds=3.25,
    measurements_by_minute=(0, 4),
    failures={"run_timeout": 1},
)
_CHECK = ReferenceCheck(
    times=ReferenceKernelTimes(compute_s=0.0011, bandwidth_s=0.0009, launch_s=1.2e-05), checked_at=_AT
)
_PROCESSOR = Processor(architecture="x86_64", x86_level=3)
_ENVIRONMENT = Environment(governor="performance", microcode="0x1", hypervisor="kvm", load_average=0.5)
_FAILURE = TrialFailure(reason=FailureReason.BUILD_TIMEOUT, message="took longer than 4 s", under_load=True)
_CANDIDATE = Candidate(
    exploration_id="0d",
    number=7,
    trace=_TRACE,
    module_hash="42",
    origin=CandidateOrigin.EVOLVED,
    predicted_score=0.75,
    predicted_build_s=0.05,
)
_STAGES = Stages(start_s=0.01, build_s=0.05, wait_s=0.02, run_s=0.03)
_TIMING = Timing(latency_s=0.00012, samples_s=(0.00012, 0.00013))
_STOPPED = Stopped(at_least_s=0.5)
_FAILED = Failed(failure=_FAILURE)
_EFFORT = Effort(trials=128, seconds=60.5, plateau_trials=64, target_latency_s=0.0001, device_seconds=30.5)
_SPENT = EffortSpent(trials=100, seconds=12.25, stop_reason=StopReason.PLATEAU)
_EXAMPLE = InputExample(content=b"\x00\x01\xfe\xff")
_UNIFORM = InputSpec(argument="A", kind="uniform", low=0.5, high=9.0)
_GIVEN = InputSpec(argument="I", kind="example", example_digest=_EXAMPLE.example_digest)
_SPEC = JobSpec(
    tasks=(_TASK,),
    effort=_EFFORT,
    strategy="random",
    space=_SPACE,
    seed_traces=(_TRACE,),
    protocol_id="cpu-hot-cache/1",
    abi="packed",
    seed=3,
    fresh=True,
    priority=-1,
    labels={"model": "résumé"},
    device_class_id="0c",
    kind="measure",
    deadline_s=3600.5,
    input_specs=(_UNIFORM, _GIVEN),
    untuned_functions=("forward",),
)
_EXPLORATION_KEY = ExplorationKey(
    tenant="local",
    workload_id="0a",
    target_id="0b",
    device_class_id="0c",
    code_generator="tvm-0.27.0+llvm-22.1",
    protocol_id="cpu-hot-cache/1",
    space_id="automatic",
    abi="stable",
    fresh_for="",
)
_RECORD_KEY = RecordKey(
    workload_id="0a",
    target_id="0b",
    device_class_id="0c",
    code_generator="tvm-0.27.0+llvm-22.1",
    protocol_id="cpu-hot-cache/1",
    abi="stable",
)
_RECORD = TuningRecord(
    record_id="0e",
    tenant="local",
    key=_RECORD_KEY,
    trace=_TRACE,
    latency_s=0.00012,
    interval_s=(0.00011, 0.00013),
    untuned_latency_s=0.004,
    status=RecordStatus.VERIFIED,
    status_reason="re-timed beside the former best",
    source="tuned",
    exploration_id="0d",
    created_at=_AT,
    foreign_load=0.25,
    processes=2,
)

NOUNS: tuple[Frozen, ...] = (
    _ARGUMENT,
    _WORKLOAD,
    _TASK,
    _TARGET,
    _TRACE,
    _SKETCH,
    _SPACE,
    _REFERENCE,
    _CLASS,
    _DEVICE,
    _PROCESSOR,
    Lane(
        lane_id="host/0",
        worker_name="worker@host",
        host_name="host",
        device=_DEVICE,
        code_generator="tvm-0.27.0+llvm-22.1",
        kind="cpu",
        tvm_version="0.27.0.post1",
        protocol_version=1,
        software_version="0.1.0",
        state=LaneState.QUARANTINED,
        reason="the reference kernel takes 2.1 times as long",
        cores=(0, 1),
        room=4,
        in_flight=2,
        started_at=_AT,
        seen_at=_AT,
        processor=_PROCESSOR,
        last_check=_CHECK,
    ),
    _CHECK,
    _OVERVIEW,
    FarmOverview(tenants=(_OVERVIEW,), lanes={"ready": 1}),
    Token(
        token_id="0123456789abcdef",
        tenant="local",
        name="laptop",
        scopes=(Scope.JOBS_READ, Scope.JOBS_WRITE),
        created_at=_AT,
        expires_at=_AT,
        revoked_at=None,
        last_used_at=_AT,
    ),
    Upload(upload_id="16", tenant="local", size_bytes=1048576, received_bytes=4096, digest="17", created_at=_AT),
    Usage(tenant="local", device_class_id="0c", day="2026-01-02", device_seconds=12.5, trials=100, jobs=2),
    _ENVIRONMENT,
    Protocol(name="cpu-cold-cache", version=1, cold_cache=True),
    _FAILURE,
    Refusal(field="trials", problem="is 0.", fix="Give at least 1."),
    _CANDIDATE,
    MeasureTask(
        exploration_id="0d",
        workload_id="0a",
        module_json="{}",
        target="{}",
        num_cores=2,
        protocol_id="cpu-hot-cache/1",
        abi="stable",
        input_specs=(_GIVEN,),
        input_examples=(_EXAMPLE,),
    ),
    _UNIFORM,
    _EXAMPLE,
    Dispatch(dispatch_id="10", nonce="11", fence=4, attempt=2, purpose=Purpose.VERIFY, candidate=_CANDIDATE),
    _STAGES,
    _TIMING,
    _WORK,
    _BANDWIDTH,
    _PEAKS,
    Roofline(latency_s=0.0002, bound="compute", compute_s=0.0002, memory_s=0.0001, moved_bytes=98304),
    LeastWork(written_bytes=65536, multiply_adds=2097152, multiply_add_bits=32),
    _STOPPED,
    _FAILED,
    Measurement(
        dispatch_id="10",
        nonce="11",
        fence=4,
        exploration_id="0d",
        candidate_number=7,
        attempt=1,
        purpose=Purpose.SEARCH,
        result=_FAILED,
        stages=_STAGES,
        worst_error=0.25,
        inputs_checked=3,
        peak_memory_bytes=1048576,
        untuned_about_s=0.004,
        device_fingerprint="0f",
        environment=_ENVIRONMENT,
    ),
    ComparisonOrder(exploration_id="0d", traces=(None, _TRACE), seconds_each=0.5),
    Comparison(results=(_TIMING, _STOPPED, _FAILED)),
    ExportOrder(exploration_id="0d", trace=_TRACE, processes=5, likely_s=0.00012, beside_untuned=True),
    Exported(
        library=b"ELF bytes",
        entry="main",
        pack_entry="pack",
        packed_arguments=(_PACKED,),
        process_latencies_s=(0.00012, 0.00013),
        untuned_latencies_s=(0.0002, 0.0003),
        foreign_load=0.25,
    ),
    _EFFORT,
    _SPENT,
    _EXPLORATION_KEY,
    Exploration(exploration_id="0d", key=_EXPLORATION_KEY, spent=_SPENT, best_latency_s=0.00012),
    _SPEC,
    Job(
        job_id="12",
        tenant="local",
        spec=_SPEC,
        state=JobState.FINISHED,
        outcome=JobOutcome.SUCCEEDED,
        message="done",
        created_at=_AT,
        finished_at=_AT,
    ),
    Event(sequence=1, job_id="12", kind="state", at=_AT, data={"state": "finished", "nested": [1, None, 0.5]}),
    _RECORD_KEY,
    _RECORD,
    RecordMatch(record=_RECORD, match=MatchKind.EXACT),
    ArtifactManifest(
        schema_version=SCHEMA_VERSION,
        artifact_id="13",
        record_id="0e",
        workload_id="0a",
        workload_name="matmul",
        arguments=(_ARGUMENT,),
        target="{}",
        num_cores=2,
        device_class_id="0c",
        code_generator="tvm-0.27.0+llvm-22.1",
        protocol_id="cpu-hot-cache/1",
        abi="packed",
        entry="main",
        pack_entry="pack",
        packed_arguments=(_PACKED,),
        trace_id="14",
        latency_s=0.00012,
        interval_s=(0.00011, 0.00013),
        library_digest="15",
        library_name="kernel.so",
        created_at=_AT,
        input_specs=(_UNIFORM,),
    ),
    *MODEL_NOUNS,
    *EDGE_NOUNS,
)
NOUNS += farm_nouns(NOUNS, _FAILURE, _PACKED)

IDENTITIES: dict[str, str] = {
    "target_id": _TARGET.target_id,
    "trace_id": _TRACE.trace_id,
    "trace_text": _TRACE.text,
    "space_id": _SPACE.space_id,
    "device_class_id": _CLASS.device_class_id,
    "exploration_id": _EXPLORATION_KEY.exploration_id,
    "canonical_json": canonical_json({"b": [1, 2.5, None], "a": "é"}),
}


def golden_path(noun: type[Frozen]) -> Path:
    return GOLDENS / f"v{SCHEMA_VERSION}" / f"{noun.__name__}.json"


def golden_text(noun: Frozen) -> str:
    return noun.model_dump_json(indent=2) + "\n"


def write() -> None:
    for noun in NOUNS:
        path = golden_path(type(noun))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(golden_text(noun))
    (GOLDENS / f"v{SCHEMA_VERSION}" / "identities.json").write_text(canonical_json(IDENTITIES) + "\n")


if __name__ == "__main__":
    write()
