"""The systemd units are valid, and restrict their processes."""

import configparser
import re
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from tests.deploy.source import DEPLOY, operations
from tests.house.command_help import assert_exists
from tunefarm_edge.command_line import main as tunefarm_agent
from tunefarm_edge.state.edge_root import DEFAULT_ROOT

ON_DEVICES = DEPLOY / "systemd" / "tunefarm-edge-agent.service"
ALL_UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
UNITS = [path for path in ALL_UNITS if path != ON_DEVICES]
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


@pytest.mark.parametrize("path", ALL_UNITS, ids=lambda path: path.name)
def test_unit_runs_as_ordinary_user_with_few_rights(path):
    service = section(path)
    assert service["User"] == "tunefarm"
    assert {name: service.get(name) for name in HARDENED} == HARDENED
    # Children compile into memory.
    assert "MemoryDenyWriteExecute" not in service


@pytest.mark.parametrize("name", ["tunefarm-tuner.service", "tunefarm-worker@.service"])
def test_child_out_of_memory_does_not_end_the_service(name):
    assert section(DEPLOY / "systemd" / name)["OOMPolicy"] == "continue"


@pytest.mark.parametrize("name", ["tunefarm-api.service", "tunefarm-tuner.service", "tunefarm-worker@.service"])
def test_unit_allows_children_to_confine_themselves(name):
    allowed = set(section(DEPLOY / "systemd" / name)["SystemCallFilter"].split())
    assert {"seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} <= allowed


@pytest.mark.parametrize("name", ["tunefarm-api.service", "tunefarm-tuner.service", "tunefarm-worker@.service"])
def test_fork_servers_may_limit_their_children_in_a_cgroup(name):
    service = section(DEPLOY / "systemd" / name)
    # ProtectControlGroups=yes makes the delegated cgroup read-only.
    assert (service["Delegate"], service["ProtectControlGroups"]) == ("pids", "no")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_unit_can_write_to_shared_blobs(path):
    assert "-/srv/tunefarm/blobs" in section(path)["ReadWritePaths"].split()
    assert "install -d -o tunefarm -g tunefarm -m 0700 /srv/tunefarm/blobs\n" in operations()


def test_lanes_of_a_host_share_their_home():
    service = section(DEPLOY / "systemd" / "tunefarm-worker@.service")
    (home,) = re.findall(r"TUNEFARM_HOME=(\S+)", service["Environment"])
    assert home == f"/var/lib/{service['StateDirectory']}"
    assert "%" not in home


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_documents_create_files_that_units_need(path):
    text = path.read_text(encoding="utf-8")
    needed = set(re.findall(r"^LoadCredential=[^:]+:(\S+)$", text, re.MULTILINE))
    needed |= set(re.findall(r"^EnvironmentFile=(/\S+)$", text, re.MULTILINE))
    written = [each for line in re.findall(r"^ReadWritePaths=(.+)$", text, re.MULTILINE) for each in line.split()]
    needed |= {each for each in written if not each.startswith("-")}
    made = set(re.findall(r"^install -d .* (/\S+)$", operations(), re.MULTILINE))
    for files, folder in re.findall(r"^install -m \d+ (.+) (/\S+)/$", operations(), re.MULTILINE):
        made |= {f"{folder}/{file}" for file in files.split()}
    assert needed <= made


@pytest.mark.skipif(which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
def test_systemd_accepts_the_units(tmp_path):
    for path in sorted((DEPLOY / "systemd").glob("tunefarm*")):
        if path.suffix in {".service", ".timer"}:
            # The program has another path on this machine.
            text = path.read_text(encoding="utf-8").replace("/opt/tunefarm/bin/tunefarm-agent", sys.executable)
            text = text.replace("/opt/tunefarm/bin/tunefarm", sys.executable)
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
def test_unit_command_exists(path):
    line = section(path)["ExecStart"]
    assert_exists(line[line.index("/opt/tunefarm/bin/tunefarm") :])


def test_unit_of_devices_runs_the_agent_in_its_folder():
    service = section(ON_DEVICES)
    words = service["ExecStart"].split()
    assert words[0] == "/opt/tunefarm/bin/tunefarm-agent"
    assert Path("/var/lib", service["StateDirectory"]) == DEFAULT_ROOT
    with pytest.raises(SystemExit) as ended:
        tunefarm_agent([*words[1:], "--help"])
    assert ended.value.code == 0
