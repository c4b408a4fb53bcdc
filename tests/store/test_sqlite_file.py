"""What lies where the database should be: looked at before it is used, never replaced, and kept from other users."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.sample import bench, put_job, timing
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.store import Store, StoreUnavailable

NOBODY = 65534


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refused(url: str, tmp_path: Path, match: str) -> None:
    """Opening fails with an error that names the file, and changes no file."""
    before = content(tmp_path)
    for create in (True, False):
        with pytest.raises(StoreUnavailable, match=match) as caught:
            Store.open(url, tmp_path / "blobs", create=create, busy_timeout_s=0.5)
        assert "tunefarm.db" in str(caught.value)
    assert content(tmp_path) == before


@pytest.fixture
def written(url: str, tmp_path: Path) -> Path:
    """The file of a store that holds something."""
    store = Store.open(url, tmp_path / "blobs")
    bench(store).measure(0, timing(1e-3))
    store.close()
    return tmp_path / "tunefarm.db"


def test_an_empty_file_is_a_lost_store_and_not_a_new_one(url: str, tmp_path: Path):
    (tmp_path / "tunefarm.db").touch(0o600)
    refused(url, tmp_path, "is empty: its content is lost")


@pytest.mark.parametrize("size", [1, 15, 16, 50, 100, 4096, 4097])
def test_a_file_cut_near_its_beginning_is_refused(url: str, tmp_path: Path, written: Path, size: int):
    os.truncate(written, size)
    refused(url, tmp_path, "not a usable database|Cannot open")


def test_a_file_cut_at_half_is_refused(url: str, tmp_path: Path, written: Path):
    os.truncate(written, written.stat().st_size // 2)
    refused(url, tmp_path, "not a usable database")


def test_a_database_of_another_program_is_left_as_it_is(url: str, tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "tunefarm.db")) as other:
        other.execute("CREATE TABLE precious (note TEXT)")
    refused(url, tmp_path, "belongs to another program")


def test_a_store_whose_revision_is_missing_is_left_as_it_is(url: str, tmp_path: Path, written: Path):
    with closing(sqlite3.connect(written)) as store:
        store.execute("PRAGMA journal_mode=DELETE")
        store.execute("DROP TABLE alembic_version")
    refused(url, tmp_path, "belongs to another program")


def test_what_is_no_file_is_refused(url: str, tmp_path: Path):
    path = tmp_path / "tunefarm.db"
    path.mkdir()
    refused(url, tmp_path, "is not a file")
    path.rmdir()
    os.mkfifo(path)
    refused(url, tmp_path, "is not a file")
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(url, tmp_path, "is not a file")


def test_a_link_to_itself_is_refused(url: str, tmp_path: Path):
    (tmp_path / "tunefarm.db").symlink_to("tunefarm.db")
    refused(url, tmp_path, "Cannot open|There is no database")


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_link_in_the_place_of_the_log_is_not_followed(url: str, tmp_path: Path, written: Path, suffix: str):
    target = tmp_path / "precious"
    target.write_text("notes")
    written.with_name(written.name + suffix).symlink_to(target)
    refused(url, tmp_path, "not a SQLite file")


def test_the_log_of_another_database_gives_no_traceback(url: str, tmp_path: Path, written: Path):
    other = tmp_path / "other"
    with closing(sqlite3.connect(other, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE precious (note TEXT)")
        shutil.copy(tmp_path / "other-wal", tmp_path / "tunefarm.db-wal")
    before = written.read_bytes()
    with pytest.raises(StoreUnavailable):
        Store.open(url, tmp_path / "blobs", busy_timeout_s=0.5)
    assert written.read_bytes() == before


def as_nobody(folder: Path, url: str) -> str:
    """What opening the store says to a user without rights."""
    code = (
        "import os, sys\n"
        "from tunefarm_services.store import Store, StoreError\n"
        f"os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "try: Store.open(sys.argv[1], sys.argv[2])\n"
        "except StoreError as error: print(error)\n"
    )
    line = [sys.executable, "-c", code, url, str(folder / "blobs")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
def test_a_store_that_may_not_be_read_or_written_is_refused():
    # Not below pytest's folder, which other users may not enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        url = f"sqlite:///{folder}/tunefarm.db"
        Store.open(url, folder / "blobs").close()
        assert "Permission denied" in as_nobody(folder, url)
        (folder / "tunefarm.db").chmod(0o644)
        assert "no permission to write" in as_nobody(folder, url)
        assert mode(folder / "tunefarm.db") == 0o644, "of another user: left as it is"


@pytest.mark.skipif(os.geteuid() != 0, reason="making another user's link takes root")
def test_another_users_link_is_not_followed(tmp_path: Path):
    path, planted = tmp_path / "planted.db", tmp_path / "tunefarm.db"
    Store.open(f"sqlite:///{path}", tmp_path / "blobs").close()
    planted.symlink_to(path)
    os.chown(planted, NOBODY, NOBODY, follow_symlinks=False)
    refused(f"sqlite:///{planted}", tmp_path, "a symbolic link of another user")


def test_a_new_store_is_readable_by_its_owner_only_from_its_first_instant(tmp_path: Path):
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


def test_an_existing_store_is_closed_to_others_when_its_owner_opens_it(url: str, tmp_path: Path, written: Path):
    written.chmod(0o644)
    (tmp_path / "blobs").chmod(0o755)
    Store.open(url, tmp_path / "blobs").close()
    assert mode(written) == 0o600
    assert mode(tmp_path / "blobs") == 0o700


def test_a_killed_creation_leaves_nothing_in_the_place_of_the_store(url: str, tmp_path: Path):
    code = (
        "import os, sys\n"
        "import tunefarm_services.store.database.schema_revision as schema\n"
        "from tunefarm_services.store import Store\n"
        "schema._create = lambda connection: os._exit(9)\n"
        "Store.open(sys.argv[1], sys.argv[2])\n"
    )
    line = [sys.executable, "-c", code, url, str(tmp_path / "blobs")]
    assert subprocess.run(line, timeout=150, check=False).returncode == 9
    assert not (tmp_path / "tunefarm.db").exists()
    Store.open(url, tmp_path / "blobs").close()


def test_a_url_with_options_of_sqlites_own_is_refused(tmp_path: Path):
    with pytest.raises(BadInput, match="TUNEFARM_DATABASE_URL"):
        Store.open(f"sqlite:///file:{tmp_path}/a.db?mode=memory&uri=true", tmp_path / "blobs")
