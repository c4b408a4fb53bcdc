"""A full disk, damaged blobs and a missing scratch folder are reported, and committed data is kept."""

import shutil
import time
from pathlib import Path

import pytest

from tests.acceptance.command import Tunefarm
from tests.acceptance.small_disk import fill, small_disk
from tests.faults.orphans import running_children
from tests.faults.trials import Trials, assert_kept

MODULE = "builtin:matmul:64x64x64"


def wait_for_trials(tunefarm: Tunefarm, process: object, trials: int) -> None:
    deadline_s = time.monotonic() + 300
    while len(Trials.read(tunefarm.database).documents) < trials:
        assert time.monotonic() < deadline_s
        assert process.poll() is None, process.communicate()  # type: ignore[attr-defined]
        time.sleep(0.02)


@pytest.mark.faults
def test_full_disk_during_run_keeps_committed_trials(tunefarm: Tunefarm, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "6m") as disk:
        tunefarm = Tunefarm(home=disk / "home", folder=tmp_path, extra={})
        assert tunefarm("db", "stats").code == 0
        process = tunefarm.start("tune", MODULE, "--trials", "48", "--json")
        wait_for_trials(tunefarm, process, 6)
        filler = fill(disk)
        ended = tunefarm.ended(process)
        assert ended.code == 2, (ended.code, ended.err)
        assert "Traceback" not in ended.err
        assert "full" in ended.err
        assert not running_children()

        filler.unlink()
        assert tunefarm("db", "check", "--json").json()["problems"] == []
        before = Trials.read(tunefarm.database)
        assert len(before.documents) >= 6
        assert before.unfinished_job is not None
        resumed = tunefarm.tune("--resume", before.unfinished_job)
        assert resumed["outcome"] == "succeeded"
        assert_kept(before, Trials.read(tunefarm.database))


@pytest.mark.faults
@pytest.mark.parametrize("damage", ["missing", "flipped"])
def test_damaged_library_is_reported_and_not_exported(tunefarm: Tunefarm, damage: str) -> None:
    task = tunefarm.tune(MODULE, "--trials", "4")["tasks"][0]
    blobs = [path for path in (tunefarm.home / "blobs").rglob("*") if path.is_file()]
    libraries = [path for path in blobs if path.read_bytes().startswith(b"\x7fELF")]
    assert len(libraries) == 1
    sound = libraries[0].read_bytes()
    if damage == "missing":
        libraries[0].unlink()
    else:
        libraries[0].chmod(0o600)
        libraries[0].write_bytes(sound[:1000] + bytes([sound[1000] ^ 4]) + sound[1001:])

    checked = tunefarm("db", "check", "--json")
    assert checked.code == 2
    assert libraries[0].name in checked.out
    built = tunefarm("artifact", "build", task["record_id"], "--output", "shipped")
    assert built.code == 2, built.out
    assert "Traceback" not in built.err
    assert not list((tunefarm.folder / "shipped").glob("*.so"))

    # The trials do not depend on that blob: both a repeat and a resumption succeed.
    again = tunefarm("tune", MODULE, "--trials", "6", "--json")
    assert "Traceback" not in again.err
    assert again.json()["tasks"][0]["trials"] == 2


@pytest.mark.faults
def test_removed_scratch_folder_during_run_is_reported(tunefarm: Tunefarm) -> None:
    assert tunefarm("db", "stats").code == 0
    process = tunefarm.start("tune", MODULE, "--trials", "24", "--json")
    wait_for_trials(tunefarm, process, 6)
    shutil.rmtree(tunefarm.home / "scratch")
    ended = tunefarm.ended(process)
    assert "Traceback" not in ended.err
    before = Trials.read(tunefarm.database)
    if ended.code == 0:
        assert ended.json()["tasks"][0]["artifact_id"]
    else:
        assert ended.code in (2, 3)
        assert "scratch" in ended.err or "No such file" in ended.err
    assert tunefarm.tune(MODULE, "--trials", "24")["outcome"] == "succeeded"
    assert_kept(before, Trials.read(tunefarm.database))
