"""``tunefarm release init`` with new keys."""

import json
import stat
from pathlib import Path

import pytest

from tests.servers.command_server import Ended, run_command
from tests.servers.processes import environment_without_settings

HANG_S = 120.0


def release(folder: Path, *words: str) -> Ended:
    environment = {**environment_without_settings(), "TUNEFARM_HOME": str(folder / "home")}
    return run_command("release", *words, environment=environment, folder=folder, timeout_s=HANG_S)


def test_init_makes_keys_that_only_their_owner_reads_and_a_channel(tmp_path: Path) -> None:
    made = release(tmp_path, "init", "releases", "--new-keys", "keys", "--channel", "stable")
    assert made.code == 0, made.err
    assert made.out.strip().endswith("metadata/1.root.json")
    keys = tmp_path / "keys"
    assert {path.name for path in keys.iterdir()} == {f"{role}.pem" for role in ("root", "targets", "online", "stable")}
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys.iterdir()} == {0o600}
    assert release(tmp_path, "check", "--repository", "releases").code == 0
    roles = json.loads(release(tmp_path, "status", "--repository", "releases", "--json").out)
    assert "channel-stable" in {each["role"] for each in roles}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "root"),
        (["--root-key", "a.pem", "--new-keys", "keys"], "new-keys"),
        (["--channel", "stable"], "--new-keys"),
        (["--new-keys", "releases/keys"], "served"),
        (["--new-keys", "keys", "--channel", "No Channel"], "channel"),
        (["--new-keys", "keys", "--channel", "root"], "channel"),
        (["--new-keys", "used"], "used/targets.pem"),
        (["--new-keys", "keys", "--threshold", "2"], "threshold"),
    ],
)
def test_init_refuses_what_it_cannot_use_and_leaves_nothing(tmp_path: Path, words: list[str], named: str) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "targets.pem").write_text("a key")
    refused = release(tmp_path, "init", "releases", *words)
    assert refused.code == 2, refused.err
    assert named in refused.err
    assert "Traceback" not in refused.err
    assert not (tmp_path / "releases").exists()
    assert not (tmp_path / "keys").exists()
    assert (tmp_path / "used" / "targets.pem").read_text() == "a key"
