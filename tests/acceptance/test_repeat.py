"""Repeated tunings reuse earlier trials."""

import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from tests.acceptance.command import Tunefarm
from tests.quiet_records import as_on_a_quiet_host

WORDS = ("builtin:matmul:16x16x16", "--target", "host:1")


@pytest.mark.faults
def test_tune_measures_only_missing_trials(tunefarm: Tunefarm) -> None:
    first = tunefarm.tune(*WORDS, "--trials", "3")["tasks"][0]
    assert first["trials"] == 3
    assert not first["answered_from_store"]
    assert first["roofline"]["moved_bytes"] == 3 * 16 * 16 * 4
    assert first["roofline"]["latency_s"] == max(first["roofline"][name] for name in ("compute_s", "memory_s"))

    as_on_a_quiet_host(tunefarm.home)
    orders = orders_sent(tunefarm)
    repeat = tunefarm.tune(*WORDS, "--trials", "3")
    task = repeat["tasks"][0]
    assert task["answered_from_store"]
    assert task["trials"] == 0
    assert (task["record_id"], task["best_latency_s"]) == (first["record_id"], first["best_latency_s"])
    assert task["artifact_id"] == first["artifact_id"]
    assert task["roofline"] == first["roofline"]
    assert orders_sent(tunefarm) == orders
    assert repeat["seconds"]["verify"] == 0

    more = tunefarm.tune(*WORDS, "--trials", "5")["tasks"][0]
    assert more["trials"] == 2
    assert more["trials_in_store"] == 5

    fresh = tunefarm.tune(*WORDS, "--trials", "2", "--fresh")["tasks"][0]
    assert fresh["trials"] == 2
    assert not fresh["answered_from_store"]


@pytest.mark.faults
def test_concurrent_tunes_share_trials(tunefarm: Tunefarm) -> None:
    assert tunefarm("db", "stats").code == 0
    both = [tunefarm.start("tune", *WORDS, "--trials", "6", "--json") for _ in range(2)]
    tasks = [tunefarm.ended(each).json()["tasks"][0] for each in both]
    assert sum(task["trials"] for task in tasks) == 6
    assert {task["trials_in_store"] for task in tasks} == {6}
    assert len({task["exploration_id"] for task in tasks}) == 1
    assert all(task["record_id"] for task in tasks)
    with closing(sqlite3.connect(tunefarm.database)) as database:
        traces = Counter(trace for (trace,) in database.execute("SELECT trace FROM trials"))
        # A quarantine of the device also causes second attempts.
        first_attempts = "SELECT count(*) FROM dispatches WHERE purpose = 'search' AND attempt = 1"
        attempts = database.execute(first_attempts).fetchone()[0]
    assert set(traces.values()) == {1}
    assert sum(traces.values()) == attempts == 6
    assert tunefarm("db", "check").code == 0


def orders_sent(tunefarm: Tunefarm) -> int:
    """The number of orders sent to lanes, for any purpose."""
    with closing(sqlite3.connect(tunefarm.database)) as database:
        return int(database.execute("SELECT count(*) FROM dispatches").fetchone()[0])
