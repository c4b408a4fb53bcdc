"""The next step that each command prints, run exactly as printed."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command import HANG_S
from tests.servers.tuned_home import TUNED, TunedHome
from tunefarm.artifact.artifact_folder import MANIFEST_NAME
from tunefarm.terminal.next_step import at_service, building, loading, watching
from tunefarm_schemas.tuning.artifact import ArtifactManifest

Run = Callable[..., Any]
SHELL_WORDS = "x; touch stolen"


def next_of(said: str) -> str:
    """The command in the ``next:`` line."""
    *_, last = said.splitlines()
    assert last.startswith("next: "), said
    return last.removeprefix("next: ")


def typed(command: str, environment: dict[str, str], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a line in a shell with the commands on its PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/sh", "-c", command],
        env={**environment, "PATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )


@pytest.mark.faults
def test_next_steps_lead_from_module_to_kernel(
    tunefarm: Run, tuned: TunedHome, home: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    tuned.copied_to(home)
    ended = tunefarm("tune", *TUNED)
    assert ended.code == 0, ended.err
    assert "next:" not in ended.out
    said, commands = ended.err, []
    for folder in ("with spaces", None):
        commands.append(next_of(said))
        words = shlex.split(commands[-1])[1:]
        step = tunefarm(*(words if folder is None else (*words[:-1], folder)))
        assert step.code == 0, (commands[-1], step.err)
        said = step.err
    assert [shlex.split(command)[1:3] for command in commands] == [["artifact", "build"], ["artifact", "run"]]
    loaded = typed(f"{next_of(said)[:-1]}; print(kernel)'", environment, tmp_path)
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.strip()

    best = tunefarm("records", "best", *TUNED[:3])
    assert next_of(best.err) == commands[0]
    exported = tunefarm("records", "export", "database")
    opened = typed(f"{next_of(exported.err)[:-1]}; print(len(database))'", environment, tmp_path)
    assert (opened.returncode, opened.stdout.strip().isdigit()) == (0, True), opened.stderr


def test_next_step_without_record_is_tuning(tunefarm: Run) -> None:
    ended = tunefarm("records", "best", "builtin:softmax:8x16")
    assert (ended.code, next_of(ended.err)) == (0, "tunefarm tune builtin:softmax:8x16")


def test_store_commands_print_next_step(tunefarm: Run, tmp_path: Path) -> None:
    created = tunefarm("db", "upgrade", "--create")
    assert next_of(created.err) == "tunefarm db check"
    checked = tunefarm("db", "check")
    assert next_of(checked.err) == "tunefarm db stats"
    backed_up = tunefarm("db", "backup", "a b.tar")
    assert shlex.split(next_of(backed_up.err)) == ["tunefarm", "db", "restore", str(tmp_path / "a b.tar")]


@pytest.mark.parametrize("place", [None, "https://farm.example/a b"])
def test_next_step_quotes_untrusted_text(tmp_path: Path, place: str | None) -> None:
    lines = [building(SHELL_WORDS, at_service(place)), watching(SHELL_WORDS, place)]
    manifest = ArtifactManifest.model_construct(entry="'; touch stolen; '", num_cores=2)
    lines.append(loading(manifest, tmp_path / MANIFEST_NAME))
    for line in lines:
        words = shlex.split(line, comments=False)
        assert "touch" not in words, line
        assert ";" not in words, line
