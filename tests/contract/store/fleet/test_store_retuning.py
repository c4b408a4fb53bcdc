"""The contract of all stores for retune policies and the jobs that they open."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.contract.store.fleet.test_store_fleet import BEGIN_S, actor
from tests.fleet.sample import document
from tests.store.sample import TENANT, put_task, spec
from tunefarm_schemas.edge.retune_policy import RetunePolicy
from tunefarm_services.store import TENANT_STREAM, NotFound, Store
from tunefarm_services.store.fleet.retune_repository import Retune

DAY_S = 86_400.0
ON = RetunePolicy(enabled=True, trials=16, cool_down_s=DAY_S)
RETUNE = Retune("stable", "cnn-2", "record-1", "the median latency of 8 of 8 devices is too high")


def test_policy_is_off_until_it_is_set_and_audited(store: Store):
    store.rollouts.announce(actor(), document())
    assert store.retunes.policy(TENANT, "stable") == RetunePolicy(enabled=False)
    assert store.retunes.enabled() == []
    for policy in (ON, ON.model_copy(update={"seconds": 60.0})):
        assert store.retunes.set_policy(actor(), "stable", policy, "summer") == policy
        assert store.retunes.policy(TENANT, "stable") == policy
    assert [(each.tenant, each.channel) for each in store.retunes.enabled()] == [(TENANT, "stable")]
    store.retunes.set_policy(actor(), "stable", RetunePolicy(), "")
    assert store.retunes.enabled() == []
    told = [each.reason for each in store.fleet_audit.page(TENANT) if each.action == "retune-policy"]
    assert sorted(told) == sorted(
        [
            "on: 16 trials, cool-down 86400 s. summer",
            "on: 16 trials, 60 s, cool-down 86400 s. summer",
            "off",
        ]
    )


def test_policy_of_an_unknown_channel_is_refused(store: Store):
    store.rollouts.announce(actor(), document())
    for tenant, channel in ((TENANT, "nowhere"), ("other", "stable")):
        with pytest.raises(NotFound):
            store.retunes.policy(tenant, channel)
        with pytest.raises(NotFound):
            store.retunes.set_policy(actor(tenant=tenant), channel, ON, "")
    assert store.retunes.enabled() == []


def test_one_of_many_processes_opens_the_job(open_store: Callable[[], Store]):
    stores = [open_store() for _ in range(4)]
    asked = spec(put_task(stores[0]))
    with ThreadPoolExecutor(4) as threads:
        jobs = list(threads.map(lambda each: each.retunes.open(actor(), RETUNE, ON, asked), stores))
    (job,) = [each for each in jobs if each is not None]
    assert stores[0].jobs.get(TENANT, job.job_id) == job
    assert stores[0].jobs.count(TENANT) == 1
    assert [each.kind for each in stores[0].events.of_job(TENANT, TENANT_STREAM)] == ["retune"]
    (entry,) = [each for each in stores[0].fleet_audit.page(TENANT) if each.action == "retune"]
    assert entry.subject == "stable"
    assert entry.reason == f"cnn-2, record record-1: {RETUNE.reason}; job {job.job_id}"


def test_record_is_tuned_again_after_the_cool_down(store: Store):
    asked = spec(put_task(store))
    opened = [
        store.retunes.open(actor(BEGIN_S + after_s), RETUNE, ON, asked) is not None
        for after_s in (0.0, DAY_S - 1, DAY_S, DAY_S + 1)
    ]
    assert opened == [True, False, True, False]
    now_s = BEGIN_S + 2 * DAY_S
    assert store.retunes.is_cooling(TENANT, "record-1", ON, now_s - 1)
    assert not store.retunes.is_cooling(TENANT, "record-1", ON, now_s)
    assert not store.retunes.is_cooling("other", "record-1", ON, now_s - 1)


def test_job_that_cannot_be_queued_uses_up_no_cool_down(store: Store):
    asked = spec(put_task(store))
    missing = asked.model_copy(update={"tasks": (asked.tasks[0].model_copy(update={"workload_id": "gone"}),)})
    with pytest.raises(NotFound):
        store.retunes.open(actor(), RETUNE, ON, missing)
    assert not store.retunes.is_cooling(TENANT, "record-1", ON, BEGIN_S)
    assert store.retunes.open(actor(), RETUNE, ON, asked) is not None
