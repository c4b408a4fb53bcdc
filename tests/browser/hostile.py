"""A tenant whose every name and text is an attack on the page that shows it."""

from tests.api.stored import LIBRARY, lane
from tests.browser import own
from tests.browser.page_list import Shown
from tests.fleet.sample import FACTS, document
from tests.service.space.stored_space import put_trial, trace_text
from tests.store.sample import DEVICE, TARGET, Bench, exploration_key, manifest, record, timing, workload
from tunefarm_schemas.edge.device import EnrolmentRequest
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.lane import Lane
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_schemas.tuning.job import Effort, Job, JobOutcome, JobSpec, JobState
from tunefarm_schemas.tuning.measurement import Failed
from tunefarm_schemas.tuning.record import RecordKey
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Task, TensorArgument
from tunefarm_schemas.views.device import device_id_of
from tunefarm_schemas.views.jobs.summary import JobSummary, Progress, TaskSummary
from tunefarm_services.fleet.rollout import RolloutVerb
from tunefarm_services.store import Lease, Store
from tunefarm_services.store.fleet.audit_repository import Actor

HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)></td></table></div><style>*{display:none}</style>"
    "{{7*7}}${7*7}javascript:alert(3)\u202e\u0000".replace("\0", "")
    + "W" * 400
    + "\n<svg onload=alert(4)>&lt;b&gt;%00\\u003cscript\\u003e"
)
"""Markup, quotes, ends of elements, templates, a reversed direction of writing, escapes, and a word without a break."""
SHORT = HOSTILE[:190]
"""For fields of limited length."""
TENANT = HOSTILE[:99]
CHANNEL = "hostile"
ARTIFACT_ID = "hostile-artifact"
_NOW_S = 1_800_000_000.0


def fill(store: Store) -> Shown:
    """Store jobs, trials, a record, a model, a channel and a token with hostile names."""
    job, lease = _job(store)
    key = exploration_key(HOSTILE, tenant=TENANT)
    exploration = store.explorations.open(lease, key)
    assert store.explorations.hold(lease, exploration.exploration_id)
    bench = Bench(store, lease, exploration.exploration_id)
    bench.measure(0, timing(2e-3))
    bench.measure(1, Failed(failure=TrialFailure(reason=FailureReason.CRASH, message=HOSTILE)))
    for number in range(2, 50):
        text = trace_text(number % 6, 1, number % 4, block=HOSTILE)
        put_trial(bench, number, text, 0.0, timing(1e-3 + 1e-5 * number))
    store.events.append(lease, "progress", _progress().model_dump(mode="json"))
    record_key = RecordKey.model_validate(key.model_dump(include=set(RecordKey.model_fields)))
    kept = record("hostile-record", 1e-3, key=record_key, tenant=TENANT)
    changes = {"trace": Trace(text=f'[[["GetSBlock",[],["{HOSTILE}"],["b0"]]],[]]'), "status_reason": HOSTILE}
    store.records.put(TENANT, lease, kept.model_copy(update=changes | {"exploration_id": exploration.exploration_id}))
    _put_artifact(store, kept.record_id)
    summary = _summary(job, exploration.exploration_id, kept.record_id)
    store.jobs.set_state(lease, JobState.FINISHED, JobOutcome.FAILED, HOSTILE)
    store.events.append(lease, "summary", summary.model_dump(mode="json"))
    store.leases.release(lease)
    waiting, waiting_lease = _job(store)
    store.events.append(waiting_lease, "progress", _progress().model_dump(mode="json"))
    store.jobs.set_state(waiting_lease, JobState.RUNNING, None, HOSTILE)
    _put_fleet(store)
    store.tokens.create(TENANT, SHORT, (Scope.JOBS_READ,))
    return Shown(
        job_id=job.job_id,
        open_job_id=waiting.job_id,
        exploration_id=exploration.exploration_id,
        record_id=kept.record_id,
        artifact_id=ARTIFACT_ID,
        space_job_id=job.job_id,
        other_job_id=waiting.job_id,
        model_job_id=own.put_model(store, (HOSTILE, HOSTILE[::-1]), TENANT),
        device_id=device_id_of(hostile_lane()),
        channel=CHANNEL,
    )


def _put_artifact(store: Store, record_id: str) -> None:
    arguments = (TensorArgument(name=HOSTILE, shape=(128, 128), dtype="float32", is_output=False),)
    texts = {"workload_name": HOSTILE, "entry": HOSTILE, "library_name": HOSTILE, "target": HOSTILE}
    described = manifest(ARTIFACT_ID, record_id, LIBRARY).model_copy(update=texts | {"arguments": arguments})
    store.artifacts.put(TENANT, described, LIBRARY)


def _put_fleet(store: Store) -> None:
    """A channel that was paused for a hostile reason, and a device with hostile names."""
    actor = Actor(TENANT, None, _NOW_S)
    store.rollouts.announce(actor, document(channel=CHANNEL))
    store.rollouts.apply(actor, CHANNEL, RolloutVerb.PAUSE, HOSTILE)
    _, text = store.enrolments.create_code(actor, CHANNEL, {}, _NOW_S + 1)
    facts = FACTS.model_copy(update={"operating_system": SHORT})
    assert store.enrolments.enrol(EnrolmentRequest(code=text, name=HOSTILE[:99], facts=facts), _NOW_S) is not None


def _job(store: Store) -> tuple[Job, Lease]:
    arguments = (TensorArgument(name=HOSTILE, shape=(128, 128), dtype="float32", is_output=False),)
    module = workload(HOSTILE, name=HOSTILE).model_copy(update={"arguments": arguments})
    stored = store.workloads.put(TENANT, module)
    store.targets.put(TENANT, TARGET)
    task = Task(workload_id=stored.workload_id, target_id=TARGET.target_id, name=HOSTILE)
    protocol_id = HOT_CACHE.protocol_id
    spec = JobSpec(tasks=(task,), effort=Effort(trials=10), protocol_id=protocol_id, labels={HOSTILE: HOSTILE})
    job = store.jobs.create(TENANT, spec)
    lease = store.leases.acquire(TENANT, job.job_id, "owner", 3600.0)
    assert lease is not None
    return job, lease


def _progress() -> Progress:
    return Progress(
        stage="searching",
        task_name=HOSTILE,
        elapsed_s=1.0,
        trials_done=2,
        trials_budget=10,
        best_latency_s=2e-3,
        untuned_latency_s=4e-3,
        trials_per_s=2.0,
        seconds_left=4.0,
        failures={HOSTILE: 1},
        doing=HOSTILE,
        waits_for=HOSTILE,
    )


def _summary(job: Job, exploration_id: str, record_id: str) -> JobSummary:
    task = TaskSummary(
        name=HOSTILE,
        exploration_id=exploration_id,
        best_latency_s=1e-3,
        untuned_latency_s=2e-3,
        interval_s=(1e-3, 1.1e-3),
        record_id=record_id,
        artifact_id=None,
        trials=2,
        trials_in_store=2,
        stop_reason=None,
        improvements=(),
        failures={HOSTILE: 1},
        first_failure_message=HOSTILE,
        answered_from_store=False,
    )
    return JobSummary(
        job_id=job.job_id, outcome=JobOutcome.FAILED, message=HOSTILE, tasks=(task,), seconds={"total": 1}
    )


def hostile_lane() -> Lane:
    """A lane of a device of which every text is hostile."""
    named = DEVICE.device_class.model_copy(update={"name": HOSTILE, "vendor": HOSTILE})
    device = DEVICE.model_copy(update={"host_name": HOSTILE, "device_class": named, "fingerprint": digest(HOSTILE)})
    texts = {"worker_name": SHORT, "host_name": SHORT, "code_generator": SHORT, "reason": SHORT}
    made = lane(f"hostile {SHORT}").model_copy(update=texts | {"device": device})
    return Lane.model_validate_json(made.model_dump_json())  # as the store reads it: some of its ids are digests
