"""The runner opens what is signed, unchanged, new and for this machine, and nothing else."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.edge_runner.toolchain import EXPIRES, HERE, ISSUED, NOW, RUNNER, Compiler, Device, Publisher, text_of
from tunefarm_schemas.edge.report import EdgeFailure, EdgeReports


@pytest.fixture
def bundle(compiler: Compiler, publisher: Publisher, tmp_path: Path) -> Path:
    return publisher.publish(compiler.tiny_model(tmp_path / "release"), 7)


def test_release_is_opened_and_run(device: Device, bundle: Path, tmp_path: Path) -> None:
    np.array([1, 2, 3, 4], np.float32).tofile(tmp_path / "input.bin")
    ended = device("run", bundle, tmp_path / "input.bin", "--runs", "20", "--output", tmp_path / "y")
    assert ended.returncode == 0, ended.stderr
    assert np.fromfile(tmp_path / "y0.bin", np.float32).tolist() == [2, 5, 8, 11]
    first, report = ended.stdout.splitlines()
    assert first == "tiny-7 7"
    (latency,) = EdgeReports.model_validate(json.loads(report)).reports
    assert latency.body.kind == "latency"
    assert latency.body.runs == 20
    assert 0 < latency.body.p50_s <= latency.body.p95_s <= latency.body.max_s
    assert latency.at == "2026-09-21T14:13:20Z"
    assert device.refusal("self-test", bundle) == ""


def test_files_may_stand_under_their_digests(device: Device, bundle: Path) -> None:
    (bundle / "files").mkdir()
    for line in (bundle / "stable.runner").read_text().splitlines():
        if line.startswith("file "):
            _, path, _, digest = line.split()
            (bundle / path).rename(bundle / "files" / digest)
    assert device.refusal("self-test", bundle) == ""


def _flip(name: str) -> Callable[[Path], None]:
    def change(bundle: Path) -> None:
        content = bytearray((bundle / name).read_bytes())
        content[len(content) // 2] ^= 1
        (bundle / name).write_bytes(content)

    return change


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_flip("stable.runner"), "tampered"),
        (_flip("stable.sig"), "tampered"),
        (_flip("model.so"), "tampered"),
        (_flip("weights.bin"), "tampered"),
        (_flip("vectors/0/output0.bin"), "tampered"),
        (lambda bundle: (bundle / "weights.bin").write_bytes(b"x" * 17), "tampered"),
        (lambda bundle: (bundle / "stable.sig").write_bytes(b""), "tampered"),
        (lambda bundle: (bundle / "stable.sig").write_bytes(b"x" * 65), "tampered"),
        (lambda bundle: (bundle / "model.so").rename(bundle / "other"), "unreachable"),
        (lambda bundle: (bundle / "stable.runner").unlink(), "unreachable"),
    ],
)
def test_changed_release_is_refused(device: Device, bundle: Path, change: Callable[[Path], None], code: str) -> None:
    change(bundle)
    assert device.refusal("run", bundle) == code


def test_link_in_place_of_a_file_is_refused(device: Device, bundle: Path) -> None:
    (bundle / "model.so").rename(bundle / "elsewhere")
    (bundle / "model.so").symlink_to("elsewhere")
    assert device.refusal("run", bundle) == "tampered"


def test_any_pinned_key_is_accepted_and_no_other(device: Device, bundle: Path) -> None:
    other = Publisher().public
    assert Device(device.program, other).refusal("run", bundle) == "tampered"
    assert Device(device.program, other).refusal("run", bundle, "--key", device.public) == ""


def test_expired_and_old_releases_are_refused(device: Device, bundle: Path) -> None:
    assert device.refusal("run", bundle, "--max-age", "999") == "expired"
    assert device.refusal("run", bundle, "--max-age", "1000") == ""
    assert device.refusal("run", bundle, now=EXPIRES - 1) == ""
    assert device.refusal("run", bundle, now=EXPIRES) == "expired"


def test_clock_that_went_back_is_refused(device: Device, bundle: Path) -> None:
    assert device.refusal("run", bundle, now=ISSUED - 1) == "clock_rolled_back"
    assert device.refusal("run", bundle, now=NOW) == ""
    assert device.refusal("run", bundle, now=NOW - 10) == "clock_rolled_back"
    assert device.refusal("run", bundle, "--tolerance", "10", now=NOW - 10) == ""


def test_older_sequence_is_refused(device: Device, publisher: Publisher, bundle: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    newer = publisher.publish(shutil.copytree(bundle, tmp_path / "newer"), 8)
    assert device.refusal("run", newer, "--state", state) == ""
    assert device.refusal("run", bundle, "--state", state) == "downgraded"
    assert device.refusal("run", bundle, "--min-sequence", "8") == "downgraded"
    (state / "state").write_text("tunefarm-state 1\nsequence 1\n")
    assert device.refusal("run", bundle, "--state", state) == "tampered"


def test_revoked_sequence_is_refused(device: Device, publisher: Publisher, bundle: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    newer = publisher.publish(shutil.copytree(bundle, tmp_path / "newer"), 8, more="revoked-below 8\n")
    assert device.refusal("run", newer, "--state", state) == ""
    assert device.refusal("run", bundle, "--state", state) == "revoked"


def test_release_for_other_machine_or_channel_is_refused(device: Device, publisher: Publisher, bundle: Path) -> None:
    publisher.publish(bundle, 7, "riscv64")
    assert device.refusal("run", bundle) == "wrong_target"
    publisher.publish(bundle, 7, features="avx99")
    assert device.refusal("run", bundle) == "wrong_target"
    publisher.sign(bundle, text_of(bundle, 7).replace(b"channel stable", b"channel beta"))
    assert device.refusal("run", bundle) == "wrong_target"


def test_first_variant_that_fits_is_chosen(device: Device, publisher: Publisher, bundle: Path) -> None:
    head, variant = text_of(bundle, 7).split(b"variant ", 1)
    wrong = b"x86_64 avx99 1 tiny-7\nfile manifest.json 1 " + b"0" * 64 + b"\n"
    publisher.sign(bundle, head + b"variant " + wrong + b"variant " + variant)
    assert device.refusal("run", bundle) == ""
    publisher.sign(bundle, head + b"variant " + wrong.replace(b"avx99", b"-") + b"variant " + variant)
    assert device.refusal("run", bundle) == "tampered"


def test_features_are_those_of_the_kernel(device: Device) -> None:
    flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    found = set(device("features").stdout.split())
    named = {"avx2", "avx512f", "avx512_vnni", "fma", "sse4_2", "pni", "ssse3"}
    assert found
    assert found <= set(flags.split())
    assert found & named == set(flags.split()) & named


def test_other_interface_is_refused(device: Device, compiler: Compiler, publisher: Publisher, tmp_path: Path) -> None:
    bundle = publisher.publish(compiler.tiny_model(tmp_path / "other", abi=2), 7)
    assert device.refusal("run", bundle) == "load_failed"


def test_polling_running_and_reporting_allocate_nothing(
    compiler: Compiler, objects: list[Path], device: Device, bundle: Path
) -> None:
    program = compiler.program(HERE / "allocations.c", objects, bundle.parent / "allocations", "-D_GNU_SOURCE")
    command = [str(program), str(bundle), device.public, str(NOW)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended
    assert ended.stdout.endswith("before, 0 more\n")


def test_codes_are_those_of_reports() -> None:
    header = (RUNNER / "src/failure.cpp").read_text()
    names = header.partition("NAMES[] = {")[2].partition("}")[0].replace('"', "").replace(",", " ").split()
    assert set(names) - {"ok", "newer"} == set(EdgeFailure.__args__)  # type: ignore[attr-defined]


def test_stripped_runner_is_small(device: Device) -> None:
    assert device.program.stat().st_size < 300 * 1024
