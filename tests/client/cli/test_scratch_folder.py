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


def test_a_folder_is_gone_when_it_is_closed(tmp_path: Path) -> None:
    folder = ScratchFolder.within(tmp_path)
    assert folder.path.parent == tmp_path
    folder.close()
    folder.close()
    assert not list(tmp_path.iterdir())


def test_what_a_killed_command_left_is_removed_when_the_next_starts_and_not_before(tmp_path: Path) -> None:
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


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    parent, elsewhere = tmp_path / "scratch", tmp_path / "elsewhere"
    (parent / "of-somebody").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / LOCK_NAME).touch()
    (parent / "link").symlink_to(elsewhere)
    (parent / "with-linked-lock").mkdir()
    (parent / "with-linked-lock" / LOCK_NAME).symlink_to(elsewhere / LOCK_NAME)
    ScratchFolder.within(parent).close()
    assert sorted(path.name for path in parent.iterdir()) == ["link", "of-somebody", "with-linked-lock"]
    assert (elsewhere / LOCK_NAME).exists()
