from collections.abc import Iterator
from pathlib import Path

import pytest
import tvm

from tests.search.relax.models import convolutional_network
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm.bundle.cuda.nvcc import Nvcc
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.startup.fork_servers import start_fork_server
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with start_fork_server() as started:
        yield started


@pytest.fixture(scope="session")
def library(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A timed library of a network, which takes seconds to build. Tests must not write to it."""
    small = convolutional_network()
    model = ImportedModel(str(tvm.ir.save_json(small.module)), small.weights, "torch 2.13.0", ())
    builder = BundleBuilder(fork_server, is_timed=True)
    return builder.build(model, "host:1", "net", "library", tmp_path_factory.mktemp("bundles") / "library").folder


@pytest.fixture(scope="session")
def nvcc() -> Nvcc:
    """NVIDIA's compiler, which ``make test-targets`` installs."""
    try:
        return Nvcc.found()
    except BadInput as missing:
        pytest.skip(str(missing))
