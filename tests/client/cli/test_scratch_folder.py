import os
import signal
import subprocess
import sys
from pathlib import Path

from tunefarm.startup.scratch_folder import LOCK_NAME, ScratchFolder

HOLDER = """
import sys, time
from pathlib import Path
from tunefarm.startup.scratch_folder import ScratchFolder
folder = ScratchFolder.within(Path(sys.argv[1]))
(folder.path / "something").write_text("left behind")
print(folder.path, flush=True)
time.sleep(60)
"""


def test_close_removes_scratch_folder(tmp_path: Path) -> None:
    folder = ScratchFolder.within(tmp_path)
    assert folder.path.parent == tmp_path
    folder.close()
    folder.close()
    assert not list(tmp_path.iterdir())


def test_next_command_removes_scratch_folder_of_killed_one(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        theirs = Path(holder.stdout.readline().strip())
        beside = ScratchFolder.within(tmp_path)
        assert (theirs / "something").exists()
        os.kill(holder.pid, signal.SIGKILL)
    next_one = ScratchFolder.within(tmp_path)
    assert not theirs.exists()
    assert beside.path.exists()
    next_one.close()
    beside.close()


def test_only_stale_scratch_folders_are_removed(tmp_path: Path) -> None:
    parent, elsewhere = tmp_path / "scratch", tmp_path / "elsewhere"
    (parent / "unlocked").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / LOCK_NAME).touch()
    (parent / "link").symlink_to(elsewhere)
    (parent / "with-linked-lock").mkdir()
    (parent / "with-linked-lock" / LOCK_NAME).symlink_to(elsewhere / LOCK_NAME)
    ScratchFolder.within(parent).close()
    assert sorted(path.name for path in parent.iterdir()) == ["link", "unlocked", "with-linked-lock"]
    assert (elsewhere / LOCK_NAME).exists()
