"""The contract of all stores for polls of devices, and how they reach them."""

from collections.abc import Callable

import pytest

from tests.contract.store.fleet.test_store_fleet import BEGIN_S, actor, enrolled
from tests.fleet.sample import FACTS, document, release
from tests.store.sample import TENANT
from tunefarm_schemas.edge.device import EdgePoll, Enrolment
from tunefarm_schemas.views.fleet import EdgeDeviceView
from tunefarm_services.api.operations.poll_batch import STORE_EVERY_S, PollBatch
from tunefarm_services.store import NotFound, Store
from tunefarm_services.store.fleet.polling_repository import PollingDevice, StoredPoll

MINUTE_S = 60.0


def polling(store: Store, one: Enrolment) -> PollingDevice:
    token = store.tokens.authenticate(one.token)
    assert token is not None
    return store.polling.of_token(token.token_id)


def poll(running: str | None = None, *, free_bytes: int = FACTS.free_bytes) -> EdgePoll:
    return EdgePoll(facts=FACTS.model_copy(update={"free_bytes": free_bytes}), running=running)


def seen(store: Store, one: Enrolment) -> tuple[str, str | None]:
    device = store.edge_devices.get(TENANT, one.edge_device_id)
    return device.seen_at[11:19], device.running


def test_polling_device_comes_with_the_newest_document_and_rollout(open_store: Callable[[], Store]):
    publisher, store = open_store(), open_store()
    one, other = enrolled(publisher), enrolled(publisher, channel="beta")
    assert polling(store, one).followed is None
    with pytest.raises(NotFound):
        store.polling.of_token("unknown")
    for sequence, name in ((1, "cnn-2"), (2, "cnn-2"), (3, "cnn-3")):
        given = document(sequence, current=release(name))
        rollout = publisher.rollouts.announce(actor(), given)
        known = polling(store, one)
        assert known.followed == (given, rollout)
        assert known.device == store.edge_devices.get(TENANT, one.edge_device_id)
    assert polling(store, other).followed is None


def test_older_poll_never_replaces_a_newer_one(store: Store):
    one = enrolled(store)
    for at_s, running in ((BEGIN_S + 20, "cnn-2"), (BEGIN_S + 10, "cnn-1")):
        store.polling.store([StoredPoll(TENANT, one.edge_device_id, poll(running), at_s)])
    assert seen(store, one) == ("08:00:20", "cnn-2")


def test_polls_of_other_tenants_and_unknown_devices_change_nothing(store: Store):
    one = enrolled(store)
    for tenant, device in (("other", one.edge_device_id), (TENANT, "unknown")):
        store.polling.store([StoredPoll(tenant, device, poll("cnn-2"), BEGIN_S + 20)])
    assert seen(store, one) == ("08:00:00", None)


def test_news_is_stored_at_once_and_signs_of_life_together(store: Store):
    devices = [enrolled(store) for _ in range(3)]
    batch = PollBatch(store.polling)

    def add(at: int, later_s: float, said: EdgePoll) -> None:
        batch.add(TENANT, known(at), said, BEGIN_S + later_s)

    def known(at: int) -> EdgeDeviceView:
        return store.edge_devices.get(TENANT, devices[at].edge_device_id)

    add(0, MINUTE_S, poll())
    assert seen(store, devices[0]) == ("08:01:00", None), "the first in a while is not held back"
    add(1, MINUTE_S + 1, poll())
    add(2, MINUTE_S + 2, poll(free_bytes=FACTS.free_bytes + 1000))
    assert [seen(store, each)[0] for each in devices[1:]] == ["08:00:00", "08:00:00"]
    add(2, MINUTE_S + 3, poll("cnn-1"))
    assert seen(store, devices[2]) == ("08:01:03", "cnn-1")
    add(0, 2 * MINUTE_S + STORE_EVERY_S, poll())
    assert [seen(store, each) for each in devices] == [("08:02:05", None), ("08:01:01", None), ("08:01:03", "cnn-1")]


def test_sign_of_life_within_a_minute_is_not_stored(store: Store):
    one = enrolled(store)
    batch = PollBatch(store.polling)
    device = store.edge_devices.get(TENANT, one.edge_device_id)
    batch.add(TENANT, device, poll(), BEGIN_S + MINUTE_S - 1)
    batch.flush()
    assert seen(store, one) == ("08:00:00", None)


def test_batch_is_stored_when_its_process_ends(store: Store):
    first, second = enrolled(store), enrolled(store)
    batch = PollBatch(store.polling)
    for one in (first, second):
        batch.add(TENANT, store.edge_devices.get(TENANT, one.edge_device_id), poll(), BEGIN_S + MINUTE_S)
    assert seen(store, second)[0] == "08:00:00"
    batch.flush()
    assert seen(store, second)[0] == "08:01:00"
