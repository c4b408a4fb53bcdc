"""Locks, full disks, and invalid database files."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.sample import TENANT, bench, put_job, timing
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.store import Store, StoreUnavailable


def test_locked_database_raises_store_unavailable_and_recovers(url: str, tmp_path: Path):
    store = Store.open(url, tmp_path / "blobs", busy_timeout_s=0.2)
    job = put_job(store)
    with closing(sqlite3.connect(tmp_path / "tunefarm.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            store.queue.lease_next("tuner", 60)
        assert store.jobs.get(TENANT, job.job_id) == job
        other.execute("ROLLBACK")
    assert store.queue.lease_next("tuner", 60) is not None
    store.close()


def test_writer_waits_for_short_lock(store: Store, tmp_path: Path):
    put_job(store)
    code = (
        "import sqlite3, sys, time\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "print('locked', flush=True)\n"
        "time.sleep(0.3)\n"
        "connection.execute('ROLLBACK')\n"
    )
    arguments = [sys.executable, "-S", "-c", code, str(tmp_path / "tunefarm.db")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        assert store.queue.lease_next("tuner", 60) is not None


# A limit on file sizes has the same effect as a full disk, and needs no privileges.
_FILL = """
import resource, signal, sys
from tests.store.sample import bench, timing
from tunefarm_services.store import Store, StoreUnavailable
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store.open(sys.argv[1], sys.argv[2])
holder = bench(store)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
number = 0
try:
    while True:
        dispatch = holder.send(number)
        assert holder.commit(dispatch, timing(1e-3 * (number + 1)))
        number += 1
        print(number, flush=True)
except StoreUnavailable as error:
    print(error.reason, file=sys.stderr)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert len(store.trials.of_exploration(holder.exploration_id)) in (number, number + 1)
holder.measure(number + 10, timing(1.0))
print("recovered", file=sys.stderr)
"""


def test_full_disk_raises_store_unavailable_and_loses_no_acknowledged_trial(url: str, tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", _FILL, url, str(tmp_path / "blobs")],
        capture_output=True,
        text=True,
        timeout=150,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    assert "Cannot write to" in done.stderr
    assert "recovered" in done.stderr
    acknowledged = int(done.stdout.split()[-1])
    assert acknowledged > 10
    store = Store.open(url, tmp_path / "blobs")
    holder = store.explorations.of_workload(TENANT, store.jobs.unfinished(TENANT)[0].spec.tasks[0].workload_id)[0]
    measured = [trial for trial in store.trials.of_exploration(holder.exploration_id) if trial.measurement is not None]
    assert len(measured) == acknowledged + 1
    assert store.inspection.check().problems == ()
    store.close()


def test_open_refuses_file_that_is_not_a_database(url: str, tmp_path: Path):
    path = tmp_path / "tunefarm.db"
    path.write_bytes(b"precious notes " * 1000)
    with pytest.raises(StoreUnavailable, match="not a usable database"):
        Store.open(url, tmp_path / "blobs")
    assert path.read_bytes() == b"precious notes " * 1000


def test_open_reports_folder_that_cannot_be_created(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="Cannot create"):
        Store.open(f"sqlite:///{tmp_path}/file/tunefarm.db", tmp_path / "blobs")
    with pytest.raises(StoreUnavailable, match="blob store"):
        Store.open(f"sqlite:///{tmp_path}/tunefarm.db", tmp_path / "file" / "blobs")


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://host/db", "sqlite://", "sqlite:///:memory:"])
def test_open_rejects_invalid_url(url: str, tmp_path: Path):
    with pytest.raises(BadInput, match="TUNEFARM_DATABASE_URL"):
        Store.open(url, tmp_path / "blobs")


def test_unreachable_server_error_does_not_contain_password(tmp_path: Path):
    url = f"postgresql://someone:secret@/none?host={tmp_path}"
    with pytest.raises(StoreUnavailable, match="does not answer") as caught:
        Store.open(url, tmp_path / "blobs")
    assert "secret" not in str(caught.value)


def test_trial_survives_reopening_the_store(url: str, store: Store, tmp_path: Path):
    holder = bench(store)
    holder.measure(0, timing(1e-3))
    store.close()
    again = Store.open(url, tmp_path / "blobs", create=False)
    assert len(again.trials.of_exploration(holder.exploration_id)) == 1
    again.close()
