"""From a module to a library with real search and measurements, in a few trials."""

import base64
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import psutil
import pytest

from tests.acceptance.command import COMMAND, HANG_S
from tests.servers.processes import assert_gone
from tests.servers.tuned_home import TUNED, TunedHome

MODULE = TUNED[:3]
Run = Callable[..., Any]


@pytest.fixture(scope="module")
def home_of_module(tuned: TunedHome, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TUNEFARM_HOME in which one module was tuned."""
    return tuned.copied_to(tmp_path_factory.mktemp("tuned") / "home")


@pytest.fixture
def environment(home_of_module: Path, environment: dict[str, str]) -> dict[str, str]:
    return {**environment, "TUNEFARM_HOME": str(home_of_module)}


def test_summary_reports_result_and_effort(tuned: TunedHome) -> None:
    summary = tuned.summary
    assert "next:" not in tuned.ended.err
    task = summary["tasks"][0]
    assert summary["outcome"] == "succeeded"
    assert task["trials"] == 6
    assert 0 < task["best_latency_s"] <= task["untuned_latency_s"]
    assert task["improvements"][0]["trace"]
    assert summary["numpy_latency_s"] > 0
    assert {"total", "start", "build", "run", "verify", "first_measured"} <= set(summary["seconds"])


def test_output_has_library_manifest_plots_and_report(tuned: TunedHome) -> None:
    names = {path.suffix for path in tuned.output.iterdir()}
    assert {".so", ".json", ".svg", ".png", ".html"} <= names


def test_record_is_listed_queried_shown_and_built(tunefarm: Run, tmp_path: Path) -> None:
    record = json.loads(tunefarm("records", "list", "--json").out)[0]
    assert record["status"] == "verified"
    own = ("--device-class", record["key"]["device_class_id"][:12], "--protocol", "cpu-hot-cache/1")
    best = json.loads(tunefarm("records", "best", *MODULE, *own, "--json").out)[0]
    assert best["match"] == "exact"
    assert best["record"]["record_id"] == record["record_id"]
    shown = tunefarm("records", "show", record["record_id"][:12])
    assert shown.code == 0, shown.err
    assert "T.sblock" in shown.out
    built = tunefarm("artifact", "build", record["record_id"], "--output", str(tmp_path / "built"))
    assert built.code == 0, built.err


def test_artifact_runs_in_fresh_process(tunefarm: Run, tuned: TunedHome) -> None:
    ended = tunefarm("artifact", "run", str(tuned.output), "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["latency_s"] > 0


def test_record_of_another_tvm_is_rejected_with_reason(
    tunefarm: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    assert tunefarm("records", "export", "older").code == 0
    file = tmp_path / "older" / "database_workload.json"
    structural_hash, packed = json.loads(file.read_text().splitlines()[0])
    content = base64.b64decode(packed)
    module = json.loads(content[8:])
    module["metadata"]["tvm_version"] = "0.19.0"
    text = json.dumps(module).encode()
    packed = base64.b64encode(len(text).to_bytes(8, "little") + text).decode()
    file.write_text(json.dumps([structural_hash, packed]) + "\n")
    environment["TUNEFARM_HOME"] = str(tmp_path / "elsewhere")
    ended = tunefarm("records", "import", "older")
    assert ended.code == 2, ended.err
    assert "0 records imported" in ended.out
    assert "0.19.0" in ended.out
    assert json.loads(tunefarm("records", "list", "--json").out) == []


def test_report_defaults_to_latest_job(tunefarm: Run, tmp_path: Path) -> None:
    ended = tunefarm("report", "--output", "page.html")
    assert ended.code == 0, ended.err
    assert "<svg" in (tmp_path / "page.html").read_text()


def test_store_passes_check_and_can_be_backed_up(tunefarm: Run, environment: dict[str, str], tmp_path: Path) -> None:
    assert json.loads(tunefarm("db", "check", "--json").out)["problems"] == []
    assert tunefarm("db", "gc", "--json").code == 0
    assert tunefarm("db", "backup", "copy.tar").code == 0
    before = json.loads(tunefarm("db", "stats", "--json").out)
    environment["TUNEFARM_HOME"] = str(tmp_path / "copy")
    restored = tunefarm("db", "restore", "copy.tar")
    assert restored.code == 0, restored.err
    assert json.loads(tunefarm("db", "stats", "--json").out) == before
    assert json.loads(tunefarm("db", "check", "--json").out)["problems"] == []


def test_doctor_succeeds_on_this_machine(tunefarm: Run) -> None:
    ended = tunefarm("doctor", "--json")
    assert ended.code == 0, ended.out
    assert json.loads(ended.out)["fit"]


@pytest.mark.faults
def test_full_disk_is_reported(environment: dict[str, str], tmp_path: Path) -> None:
    def fill_up() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    ended = subprocess.run(
        [*COMMAND, "db", "stats"],
        env={**environment, "TUNEFARM_HOME": str(tmp_path / "full")},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        preexec_fn=fill_up,
    )
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.faults
def test_ctrl_c_while_stopping_ends_command_and_children(environment: dict[str, str], tmp_path: Path) -> None:
    environment["TUNEFARM_HOME"] = str(tmp_path / "ended")
    words = ["-m", "tunefarm.cli.command_line", "tune", "builtin:matmul:96x96x96", "--trials", "4000"]
    command = pexpect.spawn(sys.executable, words, env=environment, timeout=HANG_S)
    command.expect(r"best \d")
    family = psutil.Process(command.pid).children(recursive=True)
    assert family
    command.kill(signal.SIGTERM)
    command.expect("stopping")
    command.sendintr()
    command.expect(pexpect.EOF)
    command.close()
    assert command.exitstatus == 130
    assert_gone(family, "a command that was interrupted twice")


@pytest.mark.faults
def test_ctrl_c_in_terminal_keeps_measurements_and_resume_continues(
    environment: dict[str, str], tmp_path: Path, tunefarm: Run
) -> None:
    environment["TUNEFARM_HOME"] = str(tmp_path / "interrupted")
    command = f"{sys.executable} -m tunefarm.cli.command_line tune builtin:matmul:96x96x96 --trials 4000 --seconds 3"
    shell = pexpect.spawn("/bin/sh", ["-i"], env={**environment, "PS1": "prompt> ", "TERM": "xterm"}, timeout=60)
    shell.setwinsize(40, 160)
    shell.expect("prompt> ")
    shell.sendline(command)
    shell.expect(r"best \d")
    shell.sendintr()
    shell.expect("ending the search")
    shell.sendintr()
    shell.expect("stopping")
    shell.expect(r"tune --resume (\w+)")
    job = shell.match.group(1).decode()
    shell.expect("prompt> ")
    shell.sendline("echo code=$?")
    shell.expect(r"code=130")
    shell.sendline("exit")
    shell.close()

    trials = json.loads(tunefarm("db", "stats", "--json").out)["rows"]["measurements"]
    assert trials > 0
    ended = tunefarm("tune", "--resume", job, "--trials", "7", "--json")
    assert ended.code == 0, ended.err
    assert f"resuming job {job}: builtin:matmul:96x96x96, 4000 trials, evolutionary search" in ended.err
    summary = json.loads(ended.out)
    assert summary["job_id"] == job
    assert summary["tasks"][0]["trials_in_store"] >= trials
