"""Functions that hardly matter to their model are timed in fewer processes, and again where they matter more."""

from collections.abc import Callable
from typing import Any

from tests.store.sample import TENANT
from tests.tuner.conftest import wait_finished
from tests.tuner.instant_farm import InstantFarm
from tests.tuner.job.test_model_effort import run_of_model
from tests.tuner.job.test_service import summary_of
from tests.tuner.search.test_searching import TARGET, matmul, random_job
from tunefarm_schemas.tuning.job import Job
from tunefarm_schemas.tuning.record import ENOUGH_PROCESSES, RecordStatus
from tunefarm_schemas.tuning.workload import Task, Workload
from tunefarm_services.store import Store
from tunefarm_services.tuner.verify.care import FULL, care_for, cares_of

Tuner = Callable[..., object]
TRIALS = 8


def test_processes_follow_the_share_of_the_model() -> None:
    assert [care_for(share).processes for share in (0.5, 0.1, 0.05, 0.005)] == [
        ENOUGH_PROCESSES,
        ENOUGH_PROCESSES,
        3,
        2,
    ]
    assert care_for(0.012).accepted == 2, "a share that varies between jobs does not cost another verification"
    assert care_for(0.025).accepted == 3


def test_functions_outside_of_models_are_verified_in_full() -> None:
    large, small = run_of_model(3, 1e-3, calls=2.0), run_of_model(3, 1e-3)
    assert set(cares_of([large, small], of_model=False).values()) == {FULL}
    unknown = run_of_model(3, 1e-3)
    unknown.best_latency_s, unknown.exploration = None, unknown.exploration.model_copy(update={"best_latency_s": None})
    assert cares_of([unknown], of_model=True)[unknown.exploration_id] == FULL


def model_job(store: Store, large: Workload, small: Workload) -> Job:
    for workload in (large, small):
        store.workloads.put(TENANT, workload)
    calls = {large.workload_id: 1000.0, small.workload_id: 1.0}
    tasks = tuple(
        Task(workload_id=each.workload_id, target_id=TARGET.target_id, name=each.name, weight=calls[each.workload_id])
        for each in (large, small)
    )
    return random_job(store, large, TRIALS, tasks=tasks, of_model=True)


def test_small_function_is_timed_in_two_processes_until_a_job_of_its_own(store: Store, tuner: Tuner) -> None:
    large, small = matmul(56), matmul(40)

    def tuned(job: Job) -> dict[str, Any]:
        with tuner(lambda lease, job: InstantFarm()):
            wait_finished(store, job)
        return summary_of(store, job.job_id)

    first = tuned(model_job(store, large, small))
    kept = [store.records.get(TENANT, task["record_id"]) for task in first["tasks"]]
    assert [record.processes for record in kept] == [ENOUGH_PROCESSES, 2]
    assert "timed in 2 fresh processes, because it takes 0." in kept[1].status_reason
    assert "of its model's time" in kept[1].status_reason

    again = tuned(model_job(store, large, small))
    assert all(task["answered_from_store"] for task in again["tasks"])

    alone = tuned(random_job(store, small, 1))
    (task,) = alone["tasks"]
    assert (task["trials"], task["answered_from_store"]) == (0, False)
    assert "in 2 fresh processes only, and was timed again" in alone["message"]
    assert store.records.get(TENANT, task["record_id"]).processes == ENOUGH_PROCESSES
    brief = store.records.get(TENANT, kept[1].record_id)
    assert brief.status is RecordStatus.RETRACTED
    assert brief.status_reason == f"timed in 2 fresh processes only; timed again as record {task['record_id']}"

    assert tuned(random_job(store, small, 1))["message"] == "answered from the store"
