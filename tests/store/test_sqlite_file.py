"""Existing files at the database's path are checked before use, never replaced, and closed to other users."""

import os
import shutil
import sqlite3
import stat
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.other_process import OtherProcess
from tests.store.sample import bench, put_job, timing
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.store import Store, StoreError, StoreUnavailable
from tunefarm_services.store.database import schema_revision

NOBODY = 65534


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def assert_refused(url: str, tmp_path: Path, match: str) -> None:
    """Opening fails with an error that names the file, and changes no file."""
    before = content(tmp_path)
    for create in (True, False):
        with pytest.raises(StoreUnavailable, match=match) as caught:
            Store.open(url, tmp_path / "blobs", create=create, busy_timeout_s=0.5)
        assert "tunefarm.db" in str(caught.value)
    assert content(tmp_path) == before


@pytest.fixture
def existing_store(url: str, tmp_path: Path) -> Path:
    """The file of a store with a job."""
    store = Store.open(url, tmp_path / "blobs")
    bench(store).measure(0, timing(1e-3))
    store.close()
    return tmp_path / "tunefarm.db"


def test_open_refuses_empty_file(url: str, tmp_path: Path):
    (tmp_path / "tunefarm.db").touch(0o600)
    assert_refused(url, tmp_path, "is empty: its content is lost")


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("size", [1, 15, 16, 50, 100, 4096, 4097])
def test_open_refuses_file_truncated_near_its_beginning(url: str, tmp_path: Path, existing_store: Path, size: int):
    os.truncate(existing_store, size)
    assert_refused(url, tmp_path, "not a usable database|Cannot open")


def test_open_refuses_file_truncated_at_half(url: str, tmp_path: Path, existing_store: Path):
    os.truncate(existing_store, existing_store.stat().st_size // 2)
    assert_refused(url, tmp_path, "not a usable database")


def test_open_does_not_change_database_of_another_program(url: str, tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "tunefarm.db")) as other:
        other.execute("CREATE TABLE precious (note TEXT)")
    assert_refused(url, tmp_path, "belongs to another program")


def test_open_does_not_change_store_without_revision(url: str, tmp_path: Path, existing_store: Path):
    with closing(sqlite3.connect(existing_store)) as store:
        store.execute("PRAGMA journal_mode=DELETE")
        store.execute("DROP TABLE alembic_version")
    assert_refused(url, tmp_path, "belongs to another program")


def test_open_refuses_folder_fifo_and_device(url: str, tmp_path: Path):
    path = tmp_path / "tunefarm.db"
    path.mkdir()
    assert_refused(url, tmp_path, "is not a file")
    path.rmdir()
    os.mkfifo(path)
    assert_refused(url, tmp_path, "is not a file")
    path.unlink()
    path.symlink_to("/dev/zero")
    assert_refused(url, tmp_path, "is not a file")


def test_open_refuses_link_to_itself(url: str, tmp_path: Path):
    (tmp_path / "tunefarm.db").symlink_to("tunefarm.db")
    assert_refused(url, tmp_path, "Cannot open|There is no database")


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_open_does_not_follow_link_in_place_of_log(url: str, tmp_path: Path, existing_store: Path, suffix: str):
    target = tmp_path / "precious"
    target.write_text("notes")
    existing_store.with_name(existing_store.name + suffix).symlink_to(target)
    assert_refused(url, tmp_path, "not a SQLite file")


def test_open_handles_log_of_another_database(url: str, tmp_path: Path, existing_store: Path):
    other = tmp_path / "other"
    with closing(sqlite3.connect(other, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE precious (note TEXT)")
        shutil.copy(tmp_path / "other-wal", tmp_path / "tunefarm.db-wal")
    before = existing_store.read_bytes()
    with pytest.raises(StoreUnavailable):
        Store.open(url, tmp_path / "blobs", busy_timeout_s=0.5)
    assert existing_store.read_bytes() == before


def as_nobody(folder: Path, url: str) -> str:
    """The error message of opening the store as an unprivileged user."""

    def open_store() -> str:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            Store.open(url, folder / "blobs")
        except StoreError as error:
            return str(error)
        return ""

    return OtherProcess(open_store).begin().answer()


@pytest.mark.skipif(os.geteuid() != 0, reason="switching users requires root")
def test_open_reports_missing_permissions():
    # Not in pytest's folder, which other users cannot enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        url = f"sqlite:///{folder}/tunefarm.db"
        Store.open(url, folder / "blobs").close()
        assert "Permission denied" in as_nobody(folder, url)
        (folder / "tunefarm.db").chmod(0o644)
        assert "no permission to write" in as_nobody(folder, url)
        assert mode(folder / "tunefarm.db") == 0o644, "another user's file was changed"


@pytest.mark.skipif(os.geteuid() != 0, reason="creating a link of another user requires root")
def test_open_does_not_follow_link_of_another_user(tmp_path: Path):
    path, planted = tmp_path / "planted.db", tmp_path / "tunefarm.db"
    Store.open(f"sqlite:///{path}", tmp_path / "blobs").close()
    planted.symlink_to(path)
    os.chown(planted, NOBODY, NOBODY, follow_symlinks=False)
    assert_refused(f"sqlite:///{planted}", tmp_path, "a symbolic link of another user")


def test_new_store_is_never_readable_by_others(tmp_path: Path):
    home = tmp_path / "above" / "home"
    old = os.umask(0)
    try:
        store = Store.open(f"sqlite:///{home}/tunefarm.db", home / "blobs")
        put_job(store)
        for name in ("tunefarm.db", "tunefarm.db-wal", "tunefarm.db-shm"):
            assert mode(home / name) == 0o600
        for folder in (home, home.parent, home / "blobs"):
            assert mode(folder) == 0o700
        store.close()
    finally:
        os.umask(old)


def test_open_removes_access_of_others_to_existing_store(url: str, tmp_path: Path, existing_store: Path):
    existing_store.chmod(0o644)
    (tmp_path / "blobs").chmod(0o755)
    Store.open(url, tmp_path / "blobs").close()
    assert mode(existing_store) == 0o600
    assert mode(tmp_path / "blobs") == 0o700


def test_killed_creation_leaves_no_partial_store(url: str, tmp_path: Path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema_revision, "_create", lambda _connection: os._exit(9))
        child = OtherProcess(lambda: Store.open(url, tmp_path / "blobs").revision()).begin()
    assert child.exit_status() == 9
    assert not (tmp_path / "tunefarm.db").exists()
    Store.open(url, tmp_path / "blobs").close()


def test_open_rejects_sqlite_options_in_url(tmp_path: Path):
    with pytest.raises(BadInput, match="TUNEFARM_DATABASE_URL"):
        Store.open(f"sqlite:///file:{tmp_path}/a.db?mode=memory&uri=true", tmp_path / "blobs")
