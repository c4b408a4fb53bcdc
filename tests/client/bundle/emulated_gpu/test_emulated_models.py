"""Bundles of whole models for NVIDIA GPUs, with schedules without a trial, pass their self-test on the emulated GPU."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.bundle.emulated_gpu.test_emulated_bundle import self_test
from tests.client.bundle.test_bundle import imported
from tests.client.bundle.test_cuda_bundle import needs_nvcc
from tests.search.relax.models import (
    SmallModel,
    convolutional_network,
    multilayer_perceptron,
    scattered_rows,
    tuples,
    two_entries,
)
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm_sandbox.fork_server.fork_server import ForkServer


@needs_nvcc
@pytest.mark.parametrize(
    ("model", "entry"),
    [
        (convolutional_network, None),
        (multilayer_perceptron, None),
        (tuples, None),
        (two_entries, "decode"),
        (scattered_rows, None),
    ],
    ids=["convolutions", "perceptron", "tuples", "one of two entries", "scattered rows"],
)
def test_model_passes_its_self_test(
    model: Callable[[], SmallModel], entry: str | None, fork_server: ForkServer, tmp_path: Path
) -> None:
    folder = tmp_path / "bundle"
    built = BundleBuilder(fork_server).build(imported(model()), "nvidia-a100", "net", "cuda", folder, entry)
    assert not built.problems
    ended = self_test(folder, tmp_path / "host")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "1 vectors, worst error" in ended.stdout
