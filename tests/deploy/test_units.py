"""The systemd units are understood by systemd, and leave a process no more than it needs."""

import configparser
import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from tests.deploy.source import DEPLOY

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
HARDENED = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "CapabilityBoundingSet": "",
    "SystemCallArchitectures": "native",
}


def section(path: Path) -> dict[str, str]:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str
    parser.read(path, encoding="utf-8")
    return dict(parser["Service"])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_runs_as_an_ordinary_user_with_few_rights(path):
    service = section(path)
    assert service["User"] == "tunefarm"
    assert {name: service.get(name) for name in HARDENED} == HARDENED
    # Compiling into memory is what children are for.
    assert "MemoryDenyWriteExecute" not in service


@pytest.mark.parametrize("name", ["tunefarm-tuner.service", "tunefarm-worker@.service"])
def test_a_child_that_runs_out_of_memory_does_not_end_its_service(name):
    assert section(DEPLOY / "systemd" / name)["OOMPolicy"] == "continue"


@pytest.mark.parametrize("name", ["tunefarm-api.service", "tunefarm-tuner.service", "tunefarm-worker@.service"])
def test_children_may_confine_themselves(name):
    allowed = set(section(DEPLOY / "systemd" / name)["SystemCallFilter"].split())
    assert {"seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} <= allowed


@pytest.mark.skipif(which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
def test_systemd_understands_every_line(tmp_path):
    for path in sorted((DEPLOY / "systemd").glob("tunefarm*")):
        if path.suffix in {".service", ".timer"}:
            # What is run stands elsewhere on this machine.
            text = path.read_text(encoding="utf-8").replace("/opt/tunefarm/bin/tunefarm", sys.executable)
            (tmp_path / path.name).write_text(text, encoding="utf-8")
    (tmp_path / "tunefarm-worker@0.service").write_bytes((tmp_path / "tunefarm-worker@.service").read_bytes())
    names = sorted(each.name for each in tmp_path.iterdir() if "@." not in each.name)
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *names],
        cwd=tmp_path,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:/usr/lib/systemd/system", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    about_ours = [line for line in checked.stderr.splitlines() if re.search("tunefarm", line)]
    assert about_ours == []


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_runs_a_command_that_exists_with_its_options(path):
    line = section(path)["ExecStart"]
    words = line[line.index("/opt/tunefarm/bin/tunefarm") :].split()[1:]
    names = [word for word in words[:2] if re.fullmatch("[a-z]+", word)]
    command = [sys.executable, "-m", "tunefarm.command_line", *names, "--help"]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert shown.returncode == 0, shown.stderr
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(words))) <= set(
        re.findall(r"--[a-z][a-z-]*", shown.stdout)
    )
