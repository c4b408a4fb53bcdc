"""A restore returns the store that was backed up, or changes nothing."""

import contextlib
import io
import json
import stat
import tarfile
import threading
from pathlib import Path

import pytest

from tests.store.sample import TENANT, put_job
from tunefarm.backup.store_backup import back_up, restore
from tunefarm.startup.installation import open_store
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings
from tunefarm_services.store import Store


def opened(settings: Settings, *, create: bool = True) -> contextlib.closing[Store]:
    return contextlib.closing(open_store(settings, create=create))


def fill(settings: Settings, *texts: str) -> list[str]:
    with opened(settings) as store:
        return [put_job(store, text).job_id for text in texts]


def job_ids(settings: Settings) -> list[str]:
    with opened(settings, create=False) as store:
        assert not store.inspection.check().problems
        return sorted(job.job_id for job in store.jobs.page(TENANT))


def test_restored_store_equals_backed_up_store(new_settings, tmp_path):
    ours, elsewhere = new_settings(), new_settings()
    jobs = fill(ours, "one", "two")
    report = back_up(ours, str(tmp_path / "backup.tar"))
    assert (report.blobs, report.left_out) == (2, ())
    restore(elsewhere, str(tmp_path / "backup.tar"))
    assert job_ids(elsewhere) == sorted(jobs)


def test_restore_replaces_data_only_on_request(new_settings, tmp_path):
    settings = new_settings()
    before = fill(settings, "one")
    back_up(settings, str(tmp_path / "backup.tar"))
    after = before + fill(settings, "two")
    with pytest.raises(BadInput, match="not empty"):
        restore(settings, str(tmp_path / "backup.tar"))
    assert job_ids(settings) == sorted(after)
    restore(settings, str(tmp_path / "backup.tar"), replace=True)
    assert job_ids(settings) == before


def test_backup_during_writes_is_consistent(new_settings, tmp_path):
    ours, elsewhere = new_settings(), new_settings()
    fill(ours, "first")
    stop = threading.Event()

    def write() -> None:
        with contextlib.closing(open_store(ours)) as store:
            number = 0
            while not stop.is_set():
                put_job(store, f"more {number}")
                number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        back_up(ours, str(tmp_path / "backup.tar"))
    finally:
        stop.set()
        writer.join()
    restore(elsewhere, str(tmp_path / "backup.tar"))
    assert len(job_ids(elsewhere)) >= 1


def test_backup_is_private_and_overwrites_no_file(new_sqlite_settings, tmp_path):
    settings = new_sqlite_settings("ours")
    fill(settings, "one")
    path = tmp_path / "backup.tar"
    back_up(settings, str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(BadInput, match="already exists"):
        back_up(settings, str(path))
    back_up(settings, str(path), replace=True)
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_backup_skips_and_reports_damaged_blob(new_sqlite_settings, tmp_path):
    settings = new_sqlite_settings("ours")
    fill(settings, "one", "two")
    blob = next(path for path in (settings.home / "blobs").rglob("*") if path.is_file())
    blob.write_bytes(b"flipped")
    report = back_up(settings, str(tmp_path / "backup.tar"))
    assert report.blobs == 1
    assert blob.name in report.left_out[0]


@pytest.fixture
def archive(new_sqlite_settings, tmp_path) -> Path:
    settings = new_sqlite_settings("ours")
    fill(settings, "one")
    return back_up(settings, str(tmp_path / "backup.tar")).path


def rewrite_archive(path: Path, change) -> None:
    """Apply ``change`` to the members of the archive, which are pairs of name and content."""
    with tarfile.open(path) as tar:
        members = [(member.name, tar.extractfile(member).read()) for member in tar.getmembers()]
    with tarfile.open(path, "w") as tar:
        for name, content in change(members):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def with_revision(members, revision):
    *others, (name, text) = members
    return [*others, (name, json.dumps(json.loads(text) | {"revision": revision}).encode())]


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda members: members[:-1], "it is incomplete"),
        (lambda members: members[1:], "database.sqlite is missing"),
        (
            lambda members: [(name, content[:-1] + b"?") for name, content in members[:2]] + members[2:],
            "unexpected or damaged",
        ),
        (lambda members: [*members, ("../../etc/cron.d/x", b"")], "not a valid member"),
        (lambda members: [*members, ("blobs/../x", b"")], "not a valid member"),
        (lambda members: [*members, members[0]], "not a valid member"),
        (lambda members: with_revision(members, "9999"), "newer than this version"),
    ],
    ids=["cut", "without database", "flipped bits", "a path", "a path in blobs", "doubled", "from the future"],
)
def test_restore_of_damaged_archive_changes_nothing(archive, new_sqlite_settings, change, problem):
    rewrite_archive(archive, change)
    elsewhere = new_sqlite_settings("elsewhere")
    with pytest.raises(BadInput, match=problem):
        restore(elsewhere, str(archive))
    assert not elsewhere.home.exists()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("content", [b"", b"not a tar", b"\0" * 20480])
def test_restore_rejects_file_that_is_not_an_archive(content, new_sqlite_settings, tmp_path):
    (tmp_path / "backup.tar").write_bytes(content)
    with pytest.raises(BadInput, match="not a usable backup"):
        restore(new_sqlite_settings("elsewhere"), str(tmp_path / "backup.tar"))


def test_restore_rejects_truncated_archive(archive, new_sqlite_settings):
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(BadInput, match="not a usable backup"):
        restore(new_sqlite_settings("elsewhere"), str(archive))


def test_restore_rejects_archive_of_another_database_kind(archive, new_database, tmp_path):
    elsewhere = Settings(home=tmp_path / "elsewhere", database_url=new_database())
    with pytest.raises(BadInput, match="contains a sqlite database"):
        restore(elsewhere, str(archive))


def test_restore_rejects_postgresql_database_in_use(new_database, tmp_path):
    settings = Settings(home=tmp_path / "home", database_url=new_database())
    fill(settings, "one")
    back_up(settings, str(tmp_path / "backup.tar"))
    with contextlib.closing(open_store(settings)) as store:
        assert store.jobs.page(TENANT)
        with pytest.raises(BadInput, match="other connections"):
            restore(settings, str(tmp_path / "backup.tar"), replace=True)
        assert store.jobs.page(TENANT)
