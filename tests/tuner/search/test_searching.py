"""Search jobs on a simulated device, with real search children and a real store."""

import json
import os
import signal
import threading
from collections.abc import Callable

import pytest
from tvm import te
from tvm.s_tir.meta_schedule.testing.te_workload import batch_matmul_nkkm

from tests.store.sample import TENANT
from tests.tuner import instant_farm
from tests.tuner.conftest import instant_farms, state_of, wait_finished, wait_for
from tests.tuner.instant_farm import InstantFarm
from tests.tuner.job.test_service import _cut, summary_of
from tunefarm_sandbox.fork_server.fork_server import Child
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.tuning.job import Effort, Job, JobOutcome, JobSpec, JobState
from tunefarm_schemas.tuning.measurement import CandidateOrigin
from tunefarm_schemas.tuning.record import RecordKey, RecordStatus, TuningRecord
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Task, Workload
from tunefarm_search.tvm.target import canonical_target
from tunefarm_search.tvm.workload import workload_of
from tunefarm_services.store import Store
from tunefarm_services.tuner.service.leased_job import WAITING

TARGET = canonical_target({"kind": "llvm", "mcpu": "znver4", "num-cores": 2}).target
Tuner = Callable[..., object]


def matmul(extent: int) -> Workload:
    return workload_of(te.create_prim_func(batch_matmul_nkkm(1, extent, extent, extent)), name="matmul")


def tune_job(store: Store, workload: Workload, trials: int, *, tenant: str = TENANT, **changes: object) -> Job:
    store.workloads.put(tenant, workload)
    store.targets.put(tenant, TARGET)
    task = Task(workload_id=workload.workload_id, target_id=TARGET.target_id, name=workload.name)
    spec = JobSpec(tasks=(task,), effort=Effort(trials=trials), protocol_id="cpu-hot-cache/1")
    return store.jobs.create(tenant, spec.model_copy(update=changes))


def random_job(store: Store, workload: Workload, trials: int, *, tenant: str = TENANT, **changes: object) -> Job:
    """A job with the quickest strategy, for tests of what happens after the search."""
    return tune_job(store, workload, trials, tenant=tenant, **{"strategy": "random", **changes})


def measured_numbers(store: Store, exploration_id: str) -> list[int]:
    return [
        trial.candidate.number
        for trial in store.trials.of_exploration(exploration_id, tenant=TENANT)
        if trial.measurement
    ]


def test_deadline_and_device_seconds_end_search(store: Store, tuner: Tuner) -> None:
    hurried = tune_job(store, matmul(40), 100_000, deadline_s=6.0)
    bounded = tune_job(store, matmul(48), 100_000, effort=Effort(trials=100_000, device_seconds=2.0))
    measures = threading.Event()
    measures.set()

    def farm_for(_lease: object, job: Job) -> InstantFarm:
        return InstantFarm(held=measures if job.job_id == hurried.job_id else None)

    def measured() -> list[int]:
        explorations = store.explorations.of_job(TENANT, hurried.job_id)
        return [number for each in explorations for number in measured_numbers(store, each.exploration_id)]

    with tuner(farm_for):
        wait_for(measured)
        measures.clear()  # so that it computes no more until its deadline
        wait_finished(store, hurried, bounded)
    for job, reason in ((hurried, "deadline"), (bounded, "device_seconds")):
        assert store.jobs.get(TENANT, job.job_id).outcome is JobOutcome.SUCCEEDED
        (task,) = summary_of(store, job.job_id)["tasks"]
        assert (task["stop_reason"], bool(task["record_id"])) == (reason, True)
    # Each candidate uses 0.25 device seconds; those in flight at the limit are completed.
    assert 8 <= task["trials"] <= 8 + 64
    # The same effort is already spent, so nothing is measured.
    again = tune_job(store, matmul(48), 100_000, effort=Effort(trials=100_000, device_seconds=2.0))
    made: list[InstantFarm] = []
    with tuner(instant_farms(made)):
        wait_finished(store, again)
    assert store.jobs.get(TENANT, again.job_id).message == "answered from the store"
    assert not any(farm.submitted for farm in made)


def test_second_job_of_exploration_waits_without_place(store: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    held = threading.Event()
    first, second = tune_job(store, matmul(56), 4), tune_job(store, matmul(56), 8)
    with tuner(instant_farms(made, held), jobs_at_once=2), tuner(instant_farms(made, held), jobs_at_once=1):
        wait_for(lambda: WAITING in {store.jobs.get(TENANT, job.job_id).message for job in (first, second)})
        other = tune_job(store, matmul(24), 2)
        wait_for(lambda: state_of(store, other) is JobState.RUNNING)
        held.set()
        wait_finished(store, first, second, other)
    (exploration,) = store.explorations.of_job(TENANT, second.job_id)
    assert store.explorations.of_job(TENANT, first.job_id) == [exploration]
    numbers = measured_numbers(store, exploration.exploration_id)
    assert sorted(numbers) == list(range(8))
    assert exploration.spent.trials == 8
    sent = [d.candidate for farm in made for d in farm.submitted]
    assert len([c for c in sent if c.exploration_id == exploration.exploration_id]) == 8


def test_stored_answer_is_given_during_search_of_other_job(store: Store, tuner: Tuner) -> None:
    held = threading.Event()
    held.set()
    with tuner(instant_farms([], held), jobs_at_once=2):
        wait_finished(store, tune_job(store, matmul(52), 8))
        held.clear()
        longer = tune_job(store, matmul(52), 16)
        wait_for(lambda: state_of(store, longer) is JobState.RUNNING)
        again = tune_job(store, matmul(52), 8)
        wait_finished(store, again)
        assert store.jobs.get(TENANT, again.job_id).message == "answered from the store"
        assert state_of(store, longer) is JobState.RUNNING
        held.set()
        wait_finished(store, longer)
    assert summary_of(store, longer.job_id)["tasks"][0]["trials"] == 8


@pytest.mark.faults
def test_search_continues_after_store_outage(
    store: Store, watcher: Store, tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[InstantFarm] = []
    job = tune_job(store, matmul(64), 24)
    back_at_s: list[float] = []
    for repository, name in (
        (store.measurements, "commit"),
        (store.leases, "renew"),
        (store.trials, "put"),
        (store.events, "append"),
    ):
        monkeypatch.setattr(repository, name, _cut(getattr(repository, name), name, back_at_s))
    with tuner(instant_farms(made)):
        wait_finished(watcher, job)
    monkeypatch.undo()
    assert back_at_s, "the store was never away"
    assert watcher.jobs.get(TENANT, job.job_id).outcome is JobOutcome.SUCCEEDED
    (exploration,) = watcher.explorations.of_job(TENANT, job.job_id)
    assert exploration.spent.trials == 24
    assert summary_of(watcher, job.job_id)["tasks"][0]["trials_in_store"] == 24
    sent = [(d.candidate.number, d.attempt) for farm in made for d in farm.submitted]
    assert sorted(sent) == [(number, 1) for number in range(24)], "everything was measured exactly once"


def test_job_is_poisoned_after_three_search_deaths(store: Store, tuner: Tuner) -> None:
    killed: list[int] = []

    def kill_those_of_the_first(child: Child | None) -> None:
        if child is not None and len(killed) < 3:
            killed.append(child.pid)
            os.kill(child.pid, signal.SIGKILL)

    poisoned, sound = tune_job(store, matmul(20), 12, priority=1), tune_job(store, matmul(28), 4)
    with tuner(instant_farms([]), jobs_at_once=1, on_search_child=kill_those_of_the_first):
        wait_finished(store, poisoned, sound)
    ended = store.jobs.get(TENANT, poisoned.job_id)
    assert ended.outcome is JobOutcome.FAILED
    assert "poisoned" in ended.message
    assert store.jobs.get(TENANT, sound.job_id).outcome is JobOutcome.SUCCEEDED


def test_search_tries_schedules_of_similar_shapes_early(store: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    near, wanted = matmul(64), matmul(96)
    with tuner(instant_farms(made)):
        wait_finished(store, tune_job(store, near, 8))
        (learnt,) = store.records.page(TENANT, workload_id=near.workload_id)
        for number, text in enumerate(("[[],[]]", "nonsense", '[[["GetSBlock",[],["x","main"],["b0"]]],[]]')):
            store.records.put(TENANT, None, misfit(number, learnt.key, text))
        made.clear()
        wait_finished(store, tune_job(store, wanted, 8))
        early = [d.candidate.origin for farm in made for d in farm.submitted][:4]
        assert CandidateOrigin.STORE in early
        made.clear()
        wait_finished(store, tune_job(store, wanted, 8, fresh=True))
        assert CandidateOrigin.STORE not in {d.candidate.origin for farm in made for d in farm.submitted}


def test_search_tries_claims_first(store: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    wanted = matmul(60)
    with tuner(instant_farms(made)):
        wait_finished(store, tune_job(store, wanted, 6, fresh=True, seed=7))
        (found,) = store.records.page(TENANT, workload_id=wanted.workload_id)
        sent = [d.candidate.trace for farm in made for d in farm.submitted]
        claimed = next(trace for trace in sent if trace != found.trace)
        for number, text in enumerate(("nonsense", claimed.text)):
            claim = misfit(number, found.key, text).model_copy(update={"status": RecordStatus.CLAIMED})
            store.records.put(TENANT, None, claim)
        made.clear()
        wait_finished(store, tune_job(store, wanted, 6))
    sent = [d.candidate for farm in made for d in farm.submitted]
    assert (sent[0].origin, sent[0].trace) == (CandidateOrigin.STORE, claimed)
    assert len(sent) == 6


def test_tuned_task_leaves_effort_to_other_tasks(store: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    tuned, new = matmul(32), matmul(44)
    with tuner(instant_farms(made)):
        alone = tune_job(store, tuned, 12)
        wait_finished(store, alone)
        tasks = tuple(
            Task(workload_id=each.workload_id, target_id=TARGET.target_id, name=each.name) for each in (tuned, new)
        )
        store.workloads.put(TENANT, new)
        both = tune_job(store, tuned, 12, tasks=tasks)
        wait_finished(store, both)
        again = tune_job(store, tuned, 12, tasks=tasks)
        wait_finished(store, again)
    assert store.jobs.get(TENANT, both.job_id).outcome is JobOutcome.SUCCEEDED
    assert all(task["record_id"] for task in summary_of(store, both.job_id)["tasks"])
    assert store.jobs.get(TENANT, again.job_id).message == "answered from the store"


def test_seeds_are_tried_once_without_exhausting_space(store: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    wanted = matmul(72)

    def sent_for(trials: int, **changes: object) -> list[CandidateOrigin]:
        made.clear()
        job = tune_job(store, wanted, trials, **changes)
        wait_finished(store, job)
        assert store.jobs.get(TENANT, job.job_id).outcome is JobOutcome.SUCCEEDED
        return [d.candidate.origin for farm in made for d in farm.submitted]

    with tuner(instant_farms(made)):
        sent_for(4, fresh=True, seed=7)
        whole = made[0].submitted[0].candidate.trace
        by_hand = without_postprocessors(whole)
        misfit_seed = Trace(text='[[["GetSBlock",[],["x","main"],["b0"]]],[]]')
        assert sent_for(8, strategy="replay", seed_traces=(by_hand,)) == [CandidateOrigin.SEED]
        assert len(sent_for(8)) == 7, "a replay that has ended has not seen the space"
        assert sent_for(8, seed_traces=(by_hand,)) == []
        assert sent_for(8, seed_traces=(by_hand, misfit_seed)) == [], "nothing else is measured in place of a seed"
        assert len(sent_for(10)) == 2


def test_winning_seed_becomes_record(store: Store, tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[InstantFarm] = []
    wanted = matmul(76)
    with tuner(instant_farms(made)):
        wait_finished(store, tune_job(store, wanted, 2, fresh=True, seed=7))
        (standing,) = store.records.page(TENANT, workload_id=wanted.workload_id)
        sent = [dispatch.candidate.trace for dispatch in made[0].submitted]
        whole = next(trace for trace in sent if trace != standing.trace)
        otherwise = instant_farm.latency_of
        monkeypatch.setattr(instant_farm, "latency_of", lambda text: 1e-6 if text == whole.text else otherwise(text))
        job = tune_job(store, wanted, 8, seed_traces=(without_postprocessors(whole),))
        wait_finished(store, job)
    (task,) = summary_of(store, job.job_id)["tasks"]
    record = store.records.get(TENANT, str(task["record_id"]))
    assert (record.trace, record.latency_s, record.status) == (whole, 1e-6, RecordStatus.VERIFIED)
    assert task["trials"] == 8, "it competed with others"


def without_postprocessors(trace: Trace) -> Trace:
    """The trace as a user writes it, without the postprocessors' instructions."""
    instructions, decisions = json.loads(trace.text)
    end = [step[0] for step in instructions].index("EnterPostproc")
    return Trace.from_json([instructions[:end], [entry for entry in decisions if entry[0] < end]])


def misfit(number: int, key: RecordKey, text: str) -> TuningRecord:
    return TuningRecord(
        record_id=f"misfit-{number}",
        tenant=TENANT,
        key=key.model_copy(update={"code_generator": f"another {number}"}),
        trace=Trace(text=text),
        latency_s=1e-9,
        interval_s=None,
        untuned_latency_s=None,
        status=RecordStatus.VERIFIED,
        status_reason="",
        source="tuned",
        exploration_id=None,
        created_at=utc_now(),
    )
