"""If confinement is required and the kernel lacks features, no user code runs."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.command import HANG_S
from tests.servers.command_server import Ended
from tests.servers.tuned_home import TUNED, TunedHome
from tunefarm_sandbox.confinement.abilities import abilities

LACKING = """
import sys
from tunefarm_sandbox.confinement import abilities
abilities._landlock_abi = lambda: 0
from tunefarm.cli.command_line import main
sys.exit(main(sys.argv[1:]))
"""
"""Runs the command with a simulated kernel without Landlock."""
TUNE = ("tune", "builtin:softmax:8x16", "--trials", "1", "--target", "host:1")


def run_lacking(environment: dict[str, str], *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", LACKING, *words],
        env=environment | more,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )


@pytest.mark.parametrize(
    ("words", "more"),
    [
        pytest.param((*TUNE, "--require-confinement"), {}, id="option"),
        pytest.param(TUNE, {"TUNEFARM_REQUIRE_CONFINEMENT": "true"}, id="variable", marks=pytest.mark.faults),
    ],
)
def test_tune_fails_without_required_confinement(
    environment: dict[str, str], tmp_path: Path, words: tuple[str, ...], more: dict[str, str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    ended = run_lacking(environment, "tune", str(program), *words[2:], **more)
    assert ended.returncode == 2, ended.stderr
    assert "sandbox: this host cannot fully confine candidates. The kernel offers no Landlock" in ended.stderr
    assert "TUNEFARM_REQUIRE_CONFINEMENT" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.faults
def test_local_tuner_does_not_start_without_required_confinement(environment: dict[str, str]) -> None:
    ended = run_lacking(environment, "tuner", TUNEFARM_REQUIRE_CONFINEMENT="1")
    assert ended.returncode == 2, ended.stderr
    assert "The kernel offers no Landlock" in ended.stderr


@pytest.mark.faults
def test_missing_confinement_is_reported_if_not_required(
    environment: dict[str, str], tuned: TunedHome, home: Path
) -> None:
    tuned.copied_to(home)
    ended = run_lacking(environment, "tune", *TUNED)
    assert ended.returncode == 0, ended.stderr
    assert "candidates are not fully confined: The kernel offers no Landlock" in ended.stderr


@pytest.mark.skipif(bool(abilities().missing()), reason="this kernel cannot confine fully")
def test_required_confinement_changes_nothing_where_available(
    tunefarm: Callable[..., Ended], tuned: TunedHome, home: Path
) -> None:
    tuned.copied_to(home)
    ended = tunefarm("tune", *TUNED, "--require-confinement")
    assert ended.code == 0, ended.err
