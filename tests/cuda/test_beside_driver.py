"""Hosts with NVIDIA's driver, on which TVM loads its CUDA runtime."""

from pathlib import Path

import pytest

from tests.client.bundle.test_bundle import imported
from tests.search.relax.models import multilayer_perceptron
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm_sandbox.fork_server.fork_server import ForkServer


@pytest.mark.targets
def test_bundle_is_built(beside_driver: ForkServer, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    built = BundleBuilder(beside_driver).build(
        imported(multilayer_perceptron()), "nvidia-h100", "net", "cuda", folder, None
    )
    assert not built.problems
    assert "__global__" in "".join(each.read_text() for each in (folder / "kernels").glob("*.cu"))
