"""TUNEFARM_HOME is private to its owner, whatever the umask and its previous permissions."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tunefarm.local.diagnosis import look_at_permissions
from tunefarm.server.connection_files import ConnectionFiles
from tunefarm.server.service_process import SingleService
from tunefarm.startup.installation import open_store, private_folder
from tunefarm_sandbox.channel.private_files import make_private_folder, tighten_file, write_private_file
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings

NOBODY = 65534


@pytest.fixture(autouse=True)
def _no_umask() -> Iterator[None]:
    old = os.umask(0)
    yield
    os.umask(old)


def wide(home: Path) -> list[str]:
    """Paths on which users other than the owner have permissions."""
    return [str(path) for path in (home, *home.rglob("*")) if path.stat(follow_symlinks=False).st_mode & 0o077]


def test_service_files_are_private(tmp_path: Path):
    home = tmp_path / "home"
    settings = Settings(home=home)
    private_folder(settings, "scratch")
    store = open_store(settings)
    files = ConnectionFiles(settings)
    files.leave_token(store.tokens)
    files.leave_address("http://127.0.0.1:1")
    with SingleService(settings):
        assert wide(home) == []
    store.close()


def test_opening_the_store_corrects_home_permissions(tmp_path: Path):
    home = tmp_path / "home"
    settings = Settings(home=home)
    open_store(settings).close()
    home.chmod(0o755)
    (home / "tunefarm.db").chmod(0o644)
    open_store(settings, create=False).close()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "tunefarm.db").stat().st_mode) == 0o600


def test_shared_folder_keeps_its_permissions(tmp_path: Path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    make_private_folder(shared)
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777


def test_doctor_lists_files_that_others_can_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "home"
    monkeypatch.setenv("TUNEFARM_HOME", str(home))
    open_store(Settings()).close()
    assert look_at_permissions().level == "fine"
    (home / "tunefarm.db").chmod(0o644)
    found = look_at_permissions()
    assert found.level == "note"
    assert "tunefarm.db" in found.text


def test_link_at_token_path_is_replaced_not_followed(tmp_path: Path):
    target = tmp_path / "precious"
    target.write_text("notes")
    (tmp_path / "token").symlink_to(target)
    write_private_file(tmp_path / "token", b"secret")
    assert target.read_text() == "notes"
    assert not (tmp_path / "token").is_symlink()
    assert not wide(tmp_path / "token")


@pytest.mark.skipif(os.geteuid() != 0, reason="making another user's link takes root")
def test_home_linked_by_another_user_is_rejected(tmp_path: Path):
    (tmp_path / "theirs").mkdir()
    home = tmp_path / "home"
    home.symlink_to(tmp_path / "theirs")
    os.chown(home, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(BadInput, match="TUNEFARM_HOME"):
        open_store(Settings(home=home))
    assert not list((tmp_path / "theirs").iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="owning nothing takes root")
def test_file_of_another_user_is_unchanged(tmp_path: Path):
    path = tmp_path / "theirs"
    path.touch(0o644)
    os.chown(path, NOBODY, NOBODY)
    tighten_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
