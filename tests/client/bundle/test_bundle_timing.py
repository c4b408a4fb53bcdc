"""A library that runs on this host is timed in fresh processes, and only the manifest's latency depends on it."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.client.bundle.test_bundle import imported
from tests.search.relax.models import plus
from tunefarm.bundle.bundle_build import BuiltBundle, BundleBuilder
from tunefarm.bundle.bundle_folder import read_bundle
from tunefarm.bundle.timing.bundle_timing import BUNDLE_PROTOCOL, bundle_latency, latency_of
from tunefarm.bundle.timing.bundle_timing_child import single_runs_s
from tunefarm.bundle.timing.shared_library import SharedModel
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import BundleForm


def built(
    fork_server: ForkServer,
    folder: Path,
    form: BundleForm = "library",
    target: str = "host:1",
    *,
    is_timed: bool = True,
) -> BuiltBundle:
    return BundleBuilder(fork_server, is_timed=is_timed).build(imported(plus(1.0)), target, "net", form, folder)


def test_library_for_this_host_is_timed(library: Path) -> None:
    latency = read_bundle(str(library))[0].latency
    assert latency is not None
    assert 0 < latency.interval_s[0] <= latency.p50_s <= latency.p95_s <= latency.interval_s[1] < 60
    assert latency.protocol == BUNDLE_PROTOCOL


def test_only_the_latency_depends_on_timing(fork_server: ForkServer, tmp_path: Path) -> None:
    untimed = built(fork_server, tmp_path / "untimed", is_timed=False)
    assert untimed.manifest.latency is None
    manifest, folder = read_bundle(str(built(fork_server, tmp_path / "timed").folder))
    assert manifest.latency is not None
    assert manifest.model_copy(update={"latency": None}) == untimed.manifest
    names = [each.path for each in manifest.files]
    assert all((folder / name).read_bytes() == (untimed.folder / name).read_bytes() for name in names)


@pytest.mark.parametrize(
    ("form", "target"),
    [
        pytest.param("objects", "host:1", marks=pytest.mark.faults),
        pytest.param("static", "host:1", marks=pytest.mark.faults),
        ("library", f"host:{(os.cpu_count() or 1) + 1}"),
        pytest.param(
            "library",
            '{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mattr": ["+amx-fp8"], "num-cores": 1}',
            marks=pytest.mark.faults,
        ),
    ],
)
def test_other_bundles_are_not_timed(fork_server: ForkServer, form: BundleForm, target: str, tmp_path: Path) -> None:
    assert built(fork_server, tmp_path / "bundle", form, target).manifest.latency is None


def test_timed_runs_compute_the_model(library: Path) -> None:
    manifest, folder = read_bundle(str(library))
    model = SharedModel(str(folder / "model.so"), folder, manifest)
    model()
    for found, name in zip(model.outputs, manifest.vectors[0].outputs, strict=True):
        expected = np.frombuffer((folder / name).read_bytes(), np.float32)
        allowed = manifest.tolerance * float(np.abs(expected).max())
        np.testing.assert_allclose(np.frombuffer(found, np.float32), expected, rtol=0, atol=allowed)


def test_library_that_does_not_load_is_named(fork_server: ForkServer, library: Path, tmp_path: Path) -> None:
    manifest, _ = read_bundle(str(library))
    (tmp_path / "model.so").write_bytes(b"not a library")
    (tmp_path / "weights.bin").write_bytes(b"")
    with pytest.raises(BadInput, match="the bundle cannot be loaded here") as raised:
        bundle_latency(fork_server, tmp_path, manifest)
    assert "--no-timing" in raised.value.fix


def test_percentiles_count_each_process_alike() -> None:
    latency = latency_of([[float(each) for each in range(1, 51)], [each + 0.5 for each in range(50, 100)], [1.0] * 50])
    assert (latency.p50_s, latency.interval_s) == (25.5, (1.0, 99.5))
    assert latency.p95_s == 92.5
    assert latency_of([[1.0, 100.0, 100.0], [2.0], [3.0]]).p95_s == 3.0


def test_all_runs_count() -> None:
    runs = 0

    def run() -> None:
        nonlocal runs
        runs += 1

    assert len(single_runs_s(run)) == runs >= 7
