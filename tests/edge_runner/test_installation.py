"""Releases are installed as a whole, and a failure leaves the release that was there."""

import json
import os
import select
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.edge_runner.toolchain import NOW, Compiler, Device, Publisher
from tunefarm_schemas.edge.report import EdgeReports, InstallReport, SelfTestReport

WITHOUT_RANDOM_BYTES: Final = r"""
#include <stdio.h>
#include <sys/types.h>
#include "report_text.h"
extern "C" ssize_t getrandom(void *, size_t, unsigned) { return -1; }
int main() {
  for (int i = 0; i < 100; ++i) {
    char buffer[200];
    tunefarm::Text text(buffer, sizeof buffer);
    text.identity(1790000000);
    puts(buffer);
  }
}
"""


@pytest.fixture(scope="module")
def releases(compiler: Compiler, publisher: Publisher, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("releases")
    first = compiler.tiny_model(folder / "1")
    return {
        number: publisher.publish(first if number == 1 else shutil.copytree(first, folder / str(number)), number)
        for number in (1, 2, 3, 4)
    }


@pytest.fixture
def root(device: Device, releases: dict[int, Path], tmp_path: Path) -> Path:
    """A device with the first release."""
    folder = tmp_path / "root"
    folder.mkdir()
    assert device.refusal("install", folder, releases[1]) == ""
    return folder


def running(device: Device, root: Path) -> str:
    ended = device("run", root)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()[0]


def reports(device: Device, root: Path) -> EdgeReports:
    return EdgeReports.model_validate(json.loads(device("report", root).stdout))


@pytest.mark.faults
def test_releases_are_installed_one_after_the_other(device: Device, releases: dict[int, Path], root: Path) -> None:
    assert running(device, root) == "tiny-1"
    for number in (2, 3, 4):
        assert device.refusal("install", root, releases[number]) == ""
        assert device.refusal("install", root, releases[number]) == ""
        assert running(device, root) == f"tiny-{number}"
    assert sorted(each.name for each in (root / "releases").iterdir()) == ["3-tiny-3", "4-tiny-4"]
    assert device.refusal("install", root, releases[3]) == "downgraded"
    assert running(device, root) == "tiny-4"


def test_installation_is_reported_once(device: Device, root: Path) -> None:
    ran, installed = (each.body for each in reports(device, root).reports)
    assert isinstance(ran, SelfTestReport)
    assert ran.passed
    assert ran.release == "tiny-1"
    assert isinstance(installed, InstallReport)
    assert installed.failure is None
    assert device("report", root).stdout == ""


@pytest.mark.parametrize(("flaw", "code"), [("wrong", "self_test_failed"), ("crashing", "crashed")])
def test_release_that_fails_its_self_test_is_not_run(
    device: Device, compiler: Compiler, publisher: Publisher, root: Path, tmp_path: Path, flaw: str, code: str
) -> None:
    bundle = compiler.tiny_model(tmp_path / flaw, bias=int(flaw == "wrong"), crashes=flaw == "crashing")
    assert device.refusal("install", root, publisher.publish(bundle, 2)) == code
    body = reports(device, root).reports[-1].body
    assert isinstance(body, InstallReport)
    assert body.failure == code
    assert running(device, root) == "tiny-1"
    assert [each.name for each in (root / "releases").iterdir()] == ["1-tiny-1"]


@pytest.mark.parametrize(("bias", "code"), [(0, ""), (16, ""), (150, "self_test_failed")])
def test_floats_of_16_bits_are_compared_by_their_values(
    device: Device, compiler: Compiler, publisher: Publisher, root: Path, tmp_path: Path, bias: int, code: str
) -> None:
    bundle = compiler.tiny_model(tmp_path / "half", bias=bias, is_half=True)
    assert device.refusal("install", root, publisher.publish(bundle, 2)) == code


def test_failed_health_check_rolls_back(device: Device, releases: dict[int, Path], root: Path) -> None:
    check = 'grep -q "sequence 2" "$1/stable.runner" && exit 1'
    assert device.refusal("install", root, releases[2], "--health", check) == "health_check_failed"
    body = reports(device, root).reports[-1].body
    assert isinstance(body, InstallReport)
    assert body.rolled_back_to == "tiny-1"
    assert running(device, root) == "tiny-1"
    assert device.refusal("install", root, releases[2], "--health", 'test -f "$1/model.so"') == ""
    assert running(device, root) == "tiny-2"


def test_device_returns_to_previous_release(device: Device, releases: dict[int, Path], root: Path) -> None:
    assert device.refusal("rollback", root) == "unreachable"
    assert device.refusal("install", root, releases[2]) == ""
    assert device.refusal("rollback", root) == ""
    assert running(device, root) == "tiny-1"
    assert device.refusal("install", root, releases[3]) == ""
    assert running(device, root) == "tiny-3"


def test_source_that_changes_leaves_the_release(device: Device, releases: dict[int, Path], root: Path) -> None:
    broken = shutil.copytree(releases[2], root.parent / "broken")
    (broken / "weights.bin").write_bytes(b"0" * 16)
    assert device.refusal("install", root, broken) == "tampered"
    assert running(device, root) == "tiny-1"


def test_link_to_an_older_release_is_refused(device: Device, releases: dict[int, Path], root: Path) -> None:
    shutil.copytree(root / "releases/1-tiny-1", root.parent / "old")
    for number in (2, 3):
        assert device.refusal("install", root, releases[number]) == ""
    (root.parent / "old").rename(root / "releases/1-tiny-1")
    (root / "current").unlink()
    (root / "current").symlink_to("releases/1-tiny-1")
    assert device.refusal("run", root) == "downgraded"


@pytest.mark.parametrize("name", ["weights.bin", "vectors/0/input0.bin", "stable.runner", "stable.sig"])
def test_damaged_file_of_the_installed_release_is_replaced(
    device: Device, releases: dict[int, Path], root: Path, name: str
) -> None:
    damaged = root / "current" / name
    damaged.write_bytes(bytes(damaged.stat().st_size))
    assert device.refusal("run", root) == "tampered"
    assert device.refusal("install", root, releases[1]) == ""
    assert running(device, root) == "tiny-1"
    damaged.unlink()
    assert device.refusal("run", root) == "unreachable"
    assert device.refusal("install", root, releases[1]) == ""
    assert running(device, root) == "tiny-1"
    body = reports(device, root).reports[-1].body
    assert isinstance(body, InstallReport)
    assert body.failure is None


def test_failed_installation_leaves_the_release_to_return_to(
    device: Device, compiler: Compiler, publisher: Publisher, releases: dict[int, Path], root: Path, tmp_path: Path
) -> None:
    assert device.refusal("install", root, releases[2]) == ""
    wrong = publisher.publish(compiler.tiny_model(tmp_path / "wrong", bias=1), 3)
    assert device.refusal("install", root, wrong) == "self_test_failed"
    assert running(device, root) == "tiny-2"
    assert device.refusal("rollback", root) == ""
    assert running(device, root) == "tiny-1"
    assert device.refusal("install", root, releases[4]) == ""
    assert device.refusal("rollback", root) == ""
    assert running(device, root) == "tiny-1"


def test_release_whose_health_was_never_checked_is_nothing_to_return_to(
    device: Device, releases: dict[int, Path], root: Path
) -> None:
    assert device("install", root, releases[2], "--health", "kill -9 $PPID").returncode == -signal.SIGKILL
    assert running(device, root) == "tiny-2"
    assert device.refusal("install", root, releases[3], "--health", "false") == "health_check_failed"
    assert running(device, root) == "tiny-1"


def test_text_without_a_variant_for_the_device_raises_the_floor(
    device: Device, publisher: Publisher, releases: dict[int, Path], root: Path, tmp_path: Path
) -> None:
    other = publisher.publish(shutil.copytree(releases[3], tmp_path / "other"), 3, "riscv64")
    assert device.refusal("install", root, other) == "wrong_target"
    assert running(device, root) == "tiny-1"
    assert device.refusal("install", root, releases[2]) == "downgraded"
    assert device.refusal("install", root, releases[4]) == ""


def test_installation_keeps_a_floor_that_rose_meanwhile(
    device: Device, releases: dict[int, Path], root: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    sees_newer = f"{device.program} run {releases[4]} --state {state} --key {device.public} --now {NOW}"
    assert device.refusal("install", root, releases[2], "--state", state, "--health", sees_newer) == ""
    assert device.refusal("install", root, releases[3], "--state", state) == "downgraded"


def test_self_test_ends_with_its_installation(
    device: Device, compiler: Compiler, publisher: Publisher, releases: dict[int, Path], root: Path, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    hanging = publisher.publish(compiler.tiny_model(tmp_path / "hanging", hangs=pipe), 2)
    words = ["install", str(root), str(hanging), "--key", device.public, "--now", str(NOW)]
    with subprocess.Popen([device.program, *words]) as installing:
        end = os.open(pipe, os.O_RDONLY)  # waits until the model runs
        installing.kill()
    has_ended, _, _ = select.select([end], [], [], 60)
    os.close(end)
    assert has_ended
    assert device.refusal("install", root, releases[3]) == ""


def test_report_that_was_not_written_is_kept(device: Device, root: Path) -> None:
    command = [device.program, "report", str(root), "--key", device.public, "--now", str(NOW)]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (2, b"the report cannot be written\n")
    assert running(device, root) == "tiny-1"
    assert [each.body.kind for each in reports(device, root).reports] == ["self_test", "install"]


def test_reports_have_ids_of_their_own_without_random_bytes(
    compiler: Compiler, objects: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "ids.cpp").write_text(WITHOUT_RANDOM_BYTES)
    program = compiler.program(tmp_path / "ids.cpp", objects, tmp_path / "ids")
    ended = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60)
    assert len(set(ended.stdout.split())) == 100


@pytest.mark.parametrize("kind", ["cut", "fail"])
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.faults)])
def test_power_cut_or_error_at_any_operation_leaves_old_or_new(
    device: Device, faulty_device: Device, releases: dict[int, Path], root: Path, tmp_path: Path, kind: str, step: int
) -> None:
    outcomes = set()
    for operation in range(1, 200, step):
        copy = shutil.copytree(root, tmp_path / "copy", symlinks=True)
        ended = faulty_device("install", copy, releases[2], "--health", "true", fault=f"{kind} {operation}")
        assert ended.returncode in (0, 99) or ended.stderr.startswith(("interrupted", "no_space")), ended
        outcomes.add(running(device, copy))
        assert device.refusal("install", copy, releases[2], "--health", "true", now=NOW + 1) == ""
        last = device("run", copy, now=NOW + 2).stdout.split()[0]
        assert last == "tiny-2"
        shutil.rmtree(copy)
        if ended.returncode == 0 and operation > 60:
            break
    assert outcomes == {"tiny-1", "tiny-2"}
