"""Equal models and versions give equal bytes: in other folders, at other times, with the settings of other users."""

import os
import shutil
from pathlib import Path

import pytest

from tests.client.bundle.test_bundle_records import MODEL
from tests.servers.command_server import run_command
from tests.servers.processes import environment_without_settings

pytestmark = pytest.mark.faults
BUILDS = (
    ("c", "host:1"),
    ("objects", "host:1"),
    ("static", "host:1"),
    ("library", "host:1"),
    ("library", "raspberry-pi-4"),
)
TIMEOUT_S = 900.0


def built(folder: Path, form: str, target: str, changes: dict[str, str]) -> dict[str, bytes]:
    """The files of a bundle that is built in ``folder``."""
    folder.mkdir(parents=True)
    (folder / "net.py").write_text(MODEL)
    environment = {**environment_without_settings(), "TUNEFARM_HOME": str(folder / "home"), **changes}
    words = ("bundle", "build", "net.py:model", "--form", form, "--target", target, "--no-timing", "--output", "bundle")
    ended = run_command(*words, environment=environment, folder=folder, timeout_s=TIMEOUT_S)
    assert ended.code == 0, ended.err
    bundle = folder / "bundle"
    return {str(path.relative_to(bundle)): path.read_bytes() for path in bundle.rglob("*") if path.is_file()}


def another_time() -> dict[str, str]:
    """The environment that sets the clock of programs to another year, where the library for that is installed."""
    library = next((path for path in Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
    return {} if library is None else {"LD_PRELOAD": str(library), "FAKETIME": "@2031-03-04 05:06:07"}


@pytest.mark.parametrize(("form", "target"), BUILDS)
def test_builds_of_different_surroundings_are_equal(form: str, target: str, tmp_path: Path) -> None:
    other = tmp_path / "another folder" / "ä"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    surroundings = {
        "TZ": "Asia/Tokyo",
        "LC_ALL": "C.UTF-8",
        "HOME": str(temporary),
        "TMPDIR": str(temporary),
        "SOURCE_DATE_EPOCH": "1",
        "PYTHONHASHSEED": "7",
        "USER": "somebody",
        **another_time(),
    }
    tmp_path.chmod(0o755)
    temporary.chmod(0o755)
    first = built(tmp_path / "first", form, target, {"TZ": "UTC", "LC_ALL": "C"})
    before = os.umask(0o077)
    try:
        second = built(other, form, target, surroundings)
    finally:
        os.umask(before)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    shutil.rmtree(tmp_path / "first")
