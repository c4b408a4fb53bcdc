"""Models of several tenants on a farm of processes, with Redis, PostgreSQL and workers."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.farm.workers import eventually
from tests.faults.model.models_of_tenants import (
    FIRST,
    IN_COMMON,
    LATER,
    OTHER,
    SECOND,
    TARGET,
    Tenant,
    perceptron,
)
from tests.faults.orphans import GONE_S, adopting_orphans, family_of, running_children
from tests.faults.trials import Trials, assert_accounted_once, assert_kept
from tests.faults.whole_farm import WholeFarm, running_farm
from tests.servers.postgres_server import empty_database
from tests.servers.processes import assert_gone
from tests.servers.redis_server import RedisServer
from tunefarm import RemoteDatabase
from tunefarm_schemas.tuning.measurement import CandidateOrigin
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.target import canonical_target
from tunefarm_services.store.trials.measured_trial import is_spent

pytestmark = pytest.mark.faults

MANY_TRIALS = 150
FEW_TRIALS = 30
BETWEEN_KILLS = 5
KILLS = 6


def test_models_of_a_tenant_share_tasks_and_other_tenants_get_what_is_exported(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with running_farm(home) as farm:
        alice, bob = Tenant.on(farm, "alice"), Tenant.on(farm, "bob")
        first = alice.tuned(FIRST, FEW_TRIALS)
        spent = {workload: each.spent.trials for workload, each in alice.explorations(first).items()}
        second = alice.tuned(SECOND, FEW_TRIALS)
        shared = alice.explorations(first).keys() & alice.explorations(second).keys()
        assert len(shared) == IN_COMMON
        answered = [each for each in shared if spent[each] >= FEW_TRIALS / len(SECOND[1:])]
        assert answered, "no task had its share of the trials"
        assert all(alice.explorations(second)[each].spent.trials == spent[each] for each in answered)
        assert_adapted_first(alice, first, second)
        # The same model again measures nothing.
        again = alice.tuned(FIRST, FEW_TRIALS)
        assert [task["trials"] for task in alice.tasks(again)] == [0, 0, 0]
        assert [each["record_id"] for each in alice.tasks(again)] == [each["record_id"] for each in alice.tasks(first)]
        # No other tenant sees any of it.
        assert bob.request("GET", f"/v1/jobs/{first}").status_code == 404
        assert bob.get("/v1/records")["items"] == []
        database = alice.post("/v1/records:export", {})
        report = bob.post("/v1/records:import", {each: database[each] for each in ("workloads", "records")})
        assert len(report["record_ids"]) == len(FIRST[1:]) + len(SECOND[1:]) - IN_COMMON, report
        own = bob.tuned(SECOND, FEW_TRIALS)
        assert bob.explorations(own).keys() >= shared, "the functions of both tenants are not the same"
        for workload in shared:
            tried = [trial.candidate for trial in bob.trials(bob.explorations(own)[workload])]
            best = min(
                (trial for trial in alice.trials(alice.explorations(first)[workload]) if trial.measurement is not None),
                key=lambda trial: getattr(trial.measurement.result, "latency_s", np.inf),  # type: ignore[union-attr]
            )
            assert tried[0].origin is CandidateOrigin.UNTRIED
            # Measured by bob's own trial, since nobody's measurement counts for another tenant.
            assert best.candidate.module_hash in [candidate.module_hash for candidate in tried[:2]]
        assert all(task["record_id"] for task in bob.tasks(own))


def assert_adapted_first(tenant: Tenant, earlier: str, later: str) -> None:
    """Assert that new tasks of ``later`` begin with schedules of tasks of ``earlier`` that have other shapes.

    One that becomes the untried schedule in the new shape is not measured again.
    """
    found = tenant.explorations(later)
    new = found.keys() - tenant.explorations(earlier).keys()
    assert len(new) == len(found) - IN_COMMON
    adapted = 0
    for workload in new:
        first, *others = [trial.candidate.origin for trial in tenant.trials(found[workload])]
        of_store = others.count(CandidateOrigin.STORE)
        assert first is CandidateOrigin.UNTRIED
        assert others[:of_store] == [CandidateOrigin.STORE] * of_store
        adapted += of_store
    assert adapted


def test_jobs_of_models_survive_pause_cancel_and_kills(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with adopting_orphans(), running_farm(home) as farm:
        alice, bob = Tenant.on(farm, "alice"), Tenant.on(farm, "bob")
        jobs = [(alice, alice.submit(each, MANY_TRIALS)) for each in (FIRST, SECOND)]
        unwanted = alice.submit(OTHER, 100 * MANY_TRIALS)
        alice.await_trials(unwanted, 1)
        alice.post(f"/v1/jobs/{unwanted}:cancel")
        assert alice.wait_for(unwanted, "finished")["outcome"] == "canceled"
        paused = bob.submit(SECOND, MANY_TRIALS)
        bob.await_trials(paused, BETWEEN_KILLS)
        bob.post(f"/v1/jobs/{paused}:pause")
        bob.wait_for(paused, "paused")
        at_rest = [trial.candidate.number for trial in bob.trials_of_job(paused)]
        kill_in_turns(farm, jobs)
        assert [trial.candidate.number for trial in bob.trials_of_job(paused)] == at_rest
        bob.post(f"/v1/jobs/{paused}:resume")
        bob.await_trials(paused, len(at_rest) + BETWEEN_KILLS, farm.revive)
        kill_in_turns(farm, [(bob, paused)])
        jobs.append((bob, paused))
        for tenant, job_id in jobs:
            assert tenant.wait_for(job_id, "finished")["outcome"] == "succeeded"
        for (tenant, job_id), widths in zip(jobs, (FIRST, SECOND, SECOND), strict=True):
            assert_whole(tenant, job_id, len(widths[1:]))
        canceled = alice.explorations(unwanted).values()
        assert all(trial.measurement is not None for each in canceled for trial in alice.trials(each))
        assert farm.store.inspection.check().problems == ()
        assert set(farm.stop().values()) == {0}
        farm.broker.kill()
        eventually(lambda: not running_children(), GONE_S, "the end of every process")


def test_models_of_two_tenants_share_tasks_beside_kills_and_pauses(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with adopting_orphans(), running_farm(home) as farm:
        alice, bob = Tenant.on(farm, "alice"), Tenant.on(farm, "bob")
        for tenant in (alice, bob):
            farm.store.sharing_groups.join("team", tenant.name)
        first = alice.submit(FIRST, MANY_TRIALS)
        alice.await_trials(first, BETWEEN_KILLS)
        second = bob.submit(LATER, MANY_TRIALS)
        alice.post(f"/v1/jobs/{first}:pause")
        alice.wait_for(first, "paused")
        unfinished = sent_by(alice, first, are_spent=False)
        # Bob's job takes over what alice's measured, and goes on.
        kill_in_turns(farm, [(bob, second)])
        bob.wait_for(second, "finished")  # what a killed tuner of his leaves unfinished, hers would measure
        alice.post(f"/v1/jobs/{first}:resume")
        kill_in_turns(farm, [(alice, first)])
        for tenant, job_id, widths in ((alice, first, FIRST), (bob, second, LATER)):
            assert tenant.wait_for(job_id, "finished")["outcome"] == "succeeded"
            assert_whole(tenant, job_id, len(widths[1:]))
        shared = alice.explorations(first).keys() & bob.explorations(second).keys()
        assert len(shared) == IN_COMMON
        of_alice, of_bob = (
            {trial.candidate.module_hash for trial in tenant.trials_of_job(job_id) if not trial.job_id}
            for tenant, job_id in ((alice, first), (bob, second))
        )
        assert of_alice or of_bob, "nothing was taken over"
        assert not sent_by(alice, first) & sent_by(bob, second) - unfinished
        assert bob.request("GET", f"/v1/jobs/{first}").status_code == 404
        assert farm.store.inspection.check().problems == ()


def sent_by(tenant: Tenant, job_id: str, *, are_spent: bool = True) -> set[tuple[str, str]]:
    """Function and schedule of each trial that the tenant's own jobs sent, of those that are spent or are not."""
    return {
        (exploration.key.workload_id, trial.candidate.trace.text)
        for exploration in tenant.explorations(job_id).values()
        for trial in tenant.trials(exploration)
        if trial.job_id and (trial.measurement is not None and is_spent(trial.measurement)) == are_spent
    }


def kill_in_turns(farm: WholeFarm, jobs: list[tuple[Tenant, str]]) -> None:
    """Kill a worker or all tuners as soon as some further trials are measured, until the jobs have ended."""

    def measured() -> int:
        return sum(trial.measurement is not None for tenant, job in jobs for trial in tenant.trials_of_job(job))

    def ended() -> bool:
        return all(tenant.farm.store.jobs.get(tenant.name, job).state == "finished" for tenant, job in jobs)

    before = look(farm)
    for number in range(KILLS):
        count = measured()

        def moved(count: int = count) -> bool:
            farm.revive()
            return ended() or measured() >= count + BETWEEN_KILLS

        eventually(moved, GONE_S * 5, "another trial")
        victims = [part for part in (farm.tuners if number % 2 else farm.workers[:1]) if part.runs]
        for victim in victims:
            family = family_of(victim.pid)
            with suppress(ProcessLookupError):
                os.kill(victim.pid, signal.SIGKILL)
            assert_gone(family, victim.name, GONE_S)
        after = look(farm)
        assert_kept(before, after)
        before = after


def look(farm: WholeFarm) -> Trials:
    from sqlalchemy import text

    with farm.store.database.reading() as connection:
        return Trials.asked(lambda query: connection.execute(text(query)).all())


def assert_whole(tenant: Tenant, job_id: str, count: int) -> None:
    """Assert that each of ``count`` tasks has a record, and that each trial counts once."""
    tasks = tenant.tasks(job_id)
    assert len(tasks) == count
    records = [tenant.get(f"/v1/records/{task['record_id']}") for task in tasks]
    assert [record["status"] for record in records] == ["verified"] * len(tasks)
    explorations = tenant.explorations(job_id)
    assert explorations.keys() == {record["key"]["workload_id"] for record in records}
    for exploration in explorations.values():
        assert_accounted_once(tenant.farm.store, exploration, tenant.name)


@contextmanager
def farm_on_this_host(home: Path) -> Iterator[WholeFarm]:
    home.mkdir()
    lane = {"TUNEFARM_WORKER_NAME": "worker", "TUNEFARM_WORKER_ALLOW_MISSING_CONFINEMENT": "1"}
    with ExitStack() as parts:
        url = parts.enter_context(empty_database("models"))
        broker = parts.enter_context(RedisServer())
        yield parts.enter_context(WholeFarm(home, url, broker, lanes=[lane]))


def test_tvm_applies_the_records_of_a_farm_to_a_whole_model(tmp_path: Path) -> None:
    with farm_on_this_host(tmp_path / "home") as farm:
        alice = Tenant.on(farm, "alice")
        job_id = alice.tuned(FIRST, 6)
        assert all(task["record_id"] for task in alice.tasks(job_id))
        model = perceptron(FIRST)
        prepared = prepare(model.module, model.weights, canonical_target(TARGET).target)
        with tvm.target.Target(TARGET), RemoteDatabase(alice.url, alice.token, verified_only=True):
            applied = relax.transform.MetaScheduleApplyDatabase(enable_warning=True)(prepared.module)
        functions = [name for task in model_tasks(prepared) for name in task.functions]
        assert len(functions) == len(FIRST[1:])
        assert all(bool(applied[name].attrs["tirx.is_scheduled"]) for name in functions)
        machine = relax.VirtualMachine(tvm.compile(applied, target=tvm.target.Target(TARGET)), tvm.cpu())
        found = machine["main"](*(tvm.runtime.tensor(each) for each in model.inputs)).numpy()
        np.testing.assert_allclose(found, model.expected(*model.inputs), rtol=1e-3, atol=1e-3)
