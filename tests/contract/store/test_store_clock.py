"""Which clock leases follow."""

import time

import pytest

from tests.store.sample import put_job
from tunefarm_services.store import Store


def test_lease_follows_the_server_clock(store: Store, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite is used on one host with one clock")
    put_job(store)
    assert store.queue.lease_next("first", 60) is not None
    now_s = time.time()
    for ahead_s in (3600.0, -3600.0):
        monkeypatch.setattr(time, "time", lambda ahead_s=ahead_s: now_s + ahead_s)
        assert store.queue.lease_next("second", 60) is None


def test_lease_is_renewed_after_clock_jump(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put_job(store)
    lease = store.queue.lease_next("first", 60)
    assert lease is not None
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + 3600.0)
    assert store.leases.renew(lease, 60) is not None
    assert store.queue.lease_next("second", 60) is None
