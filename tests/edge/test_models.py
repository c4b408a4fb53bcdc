"""Programs run the current release, notice a switch, and their latencies are reported."""

import array
import ctypes
import errno
import os
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from tests.edge.bundles import ELEMENTS, INPUT, bundle, scaled
from tests.edge.conftest import Device
from tests.edge.repositories import Repository
from tunefarm_edge import Model
from tunefarm_edge.command_line import main
from tunefarm_edge.runtime import model as runtime_model
from tunefarm_edge.runtime.elements import allowed_difference, difference
from tunefarm_edge.runtime.latencies import SIZE_BYTES, LatencyRecorder
from tunefarm_edge.runtime.memory import AlignedMemory
from tunefarm_edge.runtime.model import LoadedRelease, NoRelease
from tunefarm_edge.service.report_spool import ReportSpool
from tunefarm_edge.service.telemetry import clock_hz, report_latencies, temperature_celsius
from tunefarm_edge.trust import device_facts
from tunefarm_schemas.edge.device import EdgeAdvice
from tunefarm_schemas.edge.report import InstallReport, LatencyReport


def advice(action: str, release: str | None) -> EdgeAdvice:
    return EdgeAdvice(channel="stable", action=action, release=release, poll_after_s=60)


@pytest.mark.parametrize(
    "given",
    [bytes, bytearray, memoryview, lambda raw: array.array("f", raw), lambda raw: np.frombuffer(raw, np.float32)],
)
def test_model_reads_any_buffer(running: Device, given) -> None:
    assert bytes(Model.current(running.folder).run([given(INPUT)])[0]) == scaled(2)


def test_aligned_memory_is_used_in_place(running: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    release = Model.current(running.folder).release()
    memory, outputs = AlignedMemory(len(INPUT)), release.new_outputs()
    copies: list[int] = []

    def noted(size_bytes: int) -> AlignedMemory:
        copies.append(size_bytes)
        return AlignedMemory(size_bytes)

    monkeypatch.setattr(runtime_model, "AlignedMemory", noted)
    memory.view[:] = INPUT
    release.run([memory.view], outputs)
    assert bytes(outputs[0]) == scaled(2)
    release.run([memory.view.toreadonly()], outputs)
    assert not copies
    unaligned = AlignedMemory(len(INPUT) + 4).view[4:]
    unaligned[:] = INPUT
    for _ in range(2):
        release.run([unaligned], outputs)
    assert copies == [len(INPUT)], "the copy is kept"


def test_wrong_buffers_are_refused(running: Device) -> None:
    release = Model.current(running.folder).release()
    for inputs in ([], [INPUT, INPUT], [INPUT[:-1]], [memoryview(INPUT + INPUT)[::2]]):
        with pytest.raises(ValueError, match=r"inputs|contiguous"):
            release.run(inputs, release.new_outputs())
    with pytest.raises(ValueError, match="writable"):
        release.run([INPUT], [memoryview(bytes(4 * ELEMENTS))])


def test_program_notices_a_switch_and_a_stop(running: Device, repository: Repository) -> None:
    model = Model.current(running.folder)
    assert bytes(model.run([INPUT])[0]) == scaled(2)
    first = repository.release("scale-2", bundle(2))
    repository.publish(6, repository.release("scale-3", bundle(3)), previous=first)
    assert running.update(advice("stay", None)).running == "scale-2"
    assert running.update(advice("run_current", "scale-3")).changed
    assert (bytes(model.run([INPUT])[0]), model.name) == (scaled(3), "scale-3")
    assert running.update(advice("run_previous", "scale-2")).running == "scale-2"
    assert bytes(model.run([INPUT])[0]) == scaled(2)
    assert running.update(advice("run_current", "scale-9")).running == "scale-2"  # not in the document that is here
    assert running.update(advice("stop", None)).running is None
    with pytest.raises(NoRelease):
        model.run([INPUT])
    assert running.update(advice("run_current", "scale-3")).running == "scale-3"
    assert bytes(model.run([INPUT])[0]) == scaled(3)


def test_activation_is_measured_and_reported(running: Device) -> None:
    (installed,) = [each.body for each in running.reports() if isinstance(each.body, InstallReport)]
    assert installed.failure is None
    assert installed.activation_s is not None
    assert installed.activation_s > 0
    (tested,) = [each.body for each in running.reports() if each.body.kind == "self_test"]
    assert (tested.passed, tested.worst_error) == (True, 0.0)


def test_old_versions_and_their_files_are_removed(running: Device, repository: Repository) -> None:
    for number in range(3, 7):
        repository.publish(number + 3, repository.release(f"scale-{number}", bundle(number)))
        running.update()
    kept = {path.name.partition("+")[0] for path in (running.folder / "releases").iterdir()}
    assert kept == {"scale-5", "scale-6"}
    assert len(list((running.folder / "files").iterdir())) == 7  # manifest, library and input are the same in both


def test_patch_replaces_a_download(running: Device, repository: Repository) -> None:
    old, new = bundle(2), bundle(3)
    weights = os.urandom(100_000)
    old["weights.bin"], new["weights.bin"] = old["weights.bin"] + weights, new["weights.bin"] + weights
    repository.publish(6, repository.release("scale-a", old))
    running.update()
    patch = repository.delta(old["weights.bin"], new["weights.bin"])
    document = repository.publish(7, repository.release("scale-b", new, deltas=[patch]))
    whole = next(each for each in document.current.variants[0].files if each.path == "weights.bin")
    (repository.folder / "files" / whole.digest).unlink()
    assert patch.patch_bytes < 2_000
    assert running.update().running == "scale-b"
    assert running.computed() == scaled(3)


def test_damaged_base_of_a_patch_brings_the_whole_file(running: Device, repository: Repository) -> None:
    old, new = bundle(2), bundle(3)
    repository.publish(6, repository.release("scale-a", old, deltas=[]))
    running.update()
    patch = repository.delta(old["weights.bin"], new["weights.bin"])
    base = running.folder / "files" / patch.from_digest
    content = bytearray(base.read_bytes())
    content[-1] ^= 1
    base.write_bytes(content)
    repository.publish(7, repository.release("scale-b", new, deltas=[patch]))
    assert running.update().running == "scale-b"


def test_base_of_a_patch_that_cannot_be_read_brings_the_whole_file(
    running: Device, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = bundle(2), bundle(3)
    repository.publish(6, repository.release("scale-a", old))
    running.update()
    patch = repository.delta(old["weights.bin"], new["weights.bin"])
    base, read = running.folder / "files" / patch.from_digest, Path.read_bytes

    def worn_out(path: Path) -> bytes:
        if path == base:
            raise OSError(errno.EIO, "Input/output error")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", worn_out)
    repository.publish(7, repository.release("scale-b", new, deltas=[patch]))
    assert running.update().running == "scale-b"


def test_threads_load_a_new_release_once(running: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, loads = 4, []
    model = Model.current(running.folder)
    all_waiting = threading.Barrier(threads)
    link = os.readlink

    def read_together(path: str) -> str:
        target = link(path)
        if path == str(running.folder / "current"):
            all_waiting.wait()
        return target + "/"  # another name of the same folder, as after a switch

    def load(folder: Path, entry: str | None) -> LoadedRelease:
        loads.append(folder)
        return LoadedRelease(folder, entry)

    monkeypatch.setattr(os, "readlink", read_together)
    monkeypatch.setattr(runtime_model, "LoadedRelease", load)
    with ThreadPoolExecutor(threads) as pool:
        released = list(pool.map(lambda _: model.release(), range(threads)))
    assert (len(loads), len(set(map(id, released)))) == (1, 1)


def test_wrong_patch_is_refused(running: Device, repository: Repository) -> None:
    old, new = bundle(2, weights=b"1"), bundle(3)
    repository.publish(6, repository.release("scale-a", old))
    running.update()
    wrong = repository.delta(old["weights.bin"], bundle(4)["weights.bin"])
    named = wrong.model_copy(update={"to_digest": repository.delta(b"", new["weights.bin"]).to_digest})
    repository.publish(7, repository.release("scale-b", new, deltas=[named]))
    outcome = running.update()
    assert (outcome.running, outcome.refused and outcome.refused.failure) == ("scale-a", "tampered")


@pytest.mark.parametrize(("dtype", "code"), [("float16", "e"), ("float32", "f"), ("float64", "d")])
def test_difference_is_relative_to_the_largest_element(dtype: str, code: str) -> None:
    import struct

    expected, found = struct.pack(f"3{code}", 0.0, -4.0, 1.0), struct.pack(f"3{code}", 0.5, -4.0, 1.0)
    assert difference(memoryview(found), expected, dtype) == 0.125
    infinite = struct.pack(f"3{code}", float("inf"), -4.0, 1.0)
    assert difference(memoryview(infinite), expected, dtype) == float("inf")
    assert difference(memoryview(infinite), infinite, dtype) == 0.0


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    expected, found = (np.array(each, "float32").view("uint32") >> 16 for each in ([0.0, -4.0], [0.5, -4.0]))
    given = [each.astype("uint16").tobytes() for each in (expected, found)]
    assert difference(memoryview(given[1]), given[0], "bfloat16") == 0.125
    # The device keeps outputs in memory of bytes, of no type of Python.
    assert difference(memoryview((ctypes.c_char * 4).from_buffer_copy(given[1])), given[0], "bfloat16") == 0.125


def test_floats_of_16_bits_may_differ_by_four_times_as_much() -> None:
    allowed = {dtype: allowed_difference(dtype, 0.005) for dtype in ("float16", "bfloat16", "float32", "float64")}
    assert allowed == {"float16": 0.02, "bfloat16": 0.02, "float32": 0.005, "float64": 0.005}


def test_integers_are_equal_or_not() -> None:
    assert difference(memoryview(b"\1\2"), b"\1\2", "int8") == 0.0
    assert difference(memoryview(b"\1\2"), b"\1\3", "int8") == float("inf")


def test_latencies_are_reported_once(running: Device, tmp_path: Path) -> None:
    zone, clock = tmp_path / "class/thermal/thermal_zone0", tmp_path / "devices/system/cpu/cpu0/cpufreq"
    for folder, name, text in ((zone, "temp", "61500"), (clock, "scaling_cur_freq", "1800000")):
        folder.mkdir(parents=True)
        (folder / name).write_text(text)
    assert (temperature_celsius(tmp_path), clock_hz(tmp_path)) == (61.5, 1.8e9)
    recorder = LatencyRecorder(running.folder / "latencies", "scale-2+0123456789ab")
    for latency_s in [0.001] * 90 + [0.010] * 10:
        recorder.record(latency_s)
    spool = ReportSpool(running.root(), 10)
    assert report_latencies(running.root(), spool, tmp_path) == 1
    assert report_latencies(running.root(), spool, tmp_path) == 0
    (report,) = [each.body for each in running.reports() if isinstance(each.body, LatencyReport)]
    assert (report.release, report.runs, report.temperature_celsius) == ("scale-2", 100, 61.5)
    assert report.p50_s == pytest.approx(0.001, rel=0.02)
    assert report.p95_s == pytest.approx(0.010, rel=0.02)
    assert report.mean_s == pytest.approx(0.0019, rel=0.001)
    recorder.record(0.002)
    assert report_latencies(running.root(), spool, tmp_path) == 1
    assert running.reports()[-1].body.runs == 1


def test_forged_histogram_is_ignored(running: Device) -> None:
    folder, plausible = running.folder / "latencies", struct.pack("<Q", 1) + bytes(SIZE_BYTES - 8)
    (folder / "scale-2@1.histogram").write_bytes(b"short")
    (folder / "scale-2@2.histogram").symlink_to("/etc/passwd")
    (folder / "@3.histogram").write_bytes(plausible)  # no release has this name
    os.mkfifo(folder / "scale-2+1@4.histogram")  # it would wait for a writer
    with (folder / "scale-2+1@5.histogram").open("wb") as huge:
        huge.truncate(1 << 40)
    assert report_latencies(running.root(), ReportSpool(running.root(), 10)) == 0


def test_links_in_the_shared_folder_lead_to_nothing_of_the_agent(running: Device) -> None:
    folder, root = running.folder / "latencies", running.root()
    trusted = root.pinned_root.read_bytes()
    plausible = struct.pack("<Q", 1) + bytes(SIZE_BYTES - 8)
    (folder / f"scale-2+1@{os.getpid()}.histogram").write_bytes(plausible)
    for name in (f".scale-2+1@{os.getpid()}.reported.new", f".scale-2+1@{os.getpid()}.histogram.new"):
        (folder / name).symlink_to(root.pinned_root)
    assert report_latencies(root, ReportSpool(root, 10)) == 1
    assert root.pinned_root.read_bytes() == trusted


def test_full_spool_drops_the_oldest_latencies_first(device: Device) -> None:
    spool = ReportSpool(device.root(), 10)
    latency = LatencyReport(release="a", runs=1, mean_s=1, p50_s=1, p95_s=1, max_s=1)
    for number in range(8):
        spool.put(InstallReport(release=f"r{number}", failure=None))
        spool.put(latency)
    assert len(spool.waiting()) == 10
    assert spool.dropped == 6
    assert sum(each.body.kind == "install" for each in device.reports()) == 8
    spool.put(latency, "the-same-report-twice")
    spool.put(latency, "the-same-report-twice")
    assert spool.dropped == 7


def test_commands_set_up_install_and_run(tmp_path: Path, repository: Repository, capsys) -> None:
    repository.publish(5, repository.release("scale-2", bundle(2)), age=timedelta(days=20))
    root = ["--root", str(tmp_path / "device")]
    assert main([*root, "status"]) == 2
    assert main([*root, "init", "--channel", "stable", "--pinned-root", str(repository.root)]) == 0
    assert main([*root, "install", "--from", str(repository.folder)]) == 1
    assert "expired" in capsys.readouterr().err
    assert main([*root, "install", "--from", str(repository.folder), "--max-age", "30"]) == 2
    assert main([*root, "install", "--from", str(repository.folder), "--max-age", "30d"]) == 0
    assert capsys.readouterr().out == "scale-2 is installed\n"
    (tmp_path / "input").write_bytes(INPUT)
    assert main([*root, "run", str(tmp_path / "input"), "--output", str(tmp_path / "output")]) == 0
    assert (tmp_path / "output").read_bytes() == scaled(2)
    assert main([*root, "status"]) == 0
    assert '"running": "scale-2"' in capsys.readouterr().out


def test_running_a_model_imports_the_standard_library_only(running: Device) -> None:
    program = (
        "import sys; from tunefarm_edge import Model; "
        f"Model.current({str(running.folder)!r}).run([bytes({4 * ELEMENTS})]); "
        "assert not {'pydantic', 'tuf', 'numpy', 'urllib3', 'zstandard', 'tunefarm_schemas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_extensions_of_riscv_are_features(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\nisa : rv64imafdcv_zicsr_zifencei\nmmu : sv48\n")
    monkeypatch.setattr(device_facts, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(device_facts, "architecture", lambda: "riscv64")
    assert {"i", "v", "zicsr"} <= device_facts.cpu_features()
