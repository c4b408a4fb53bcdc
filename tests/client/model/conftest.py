"""Compiled models, made once for the whole test run. Tests copy a folder before they change it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import tvm

from tests.search.relax.models import SmallModel, convolutional_network, flattened, tuples, two_caches, two_entries
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.model.compilation import Compilation, ModelCompiler
from tunefarm.startup.preloading import PRELOAD
from tunefarm_sandbox.fork_server.fork_server import ForkServer


@dataclass(frozen=True)
class CompiledOnce:
    model: SmallModel
    compilation: Compilation

    @property
    def folder(self) -> Path:
        return self.compilation.folder


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    root = str(Path(__file__).parents[3])
    with ForkServer.start((*PRELOAD, "tests.servers.brief_timing"), environment={"PYTHONPATH": root}) as started:
        yield started


def compiled(fork_server: ForkServer, model: SmallModel, folder: Path) -> CompiledOnce:
    imported = ImportedModel(str(tvm.ir.save_json(model.module)), model.weights, "test", ())
    return CompiledOnce(model, ModelCompiler(fork_server, folder).compile(imported, "host:1", "small"))


@pytest.fixture(scope="session")
def network(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> CompiledOnce:
    return compiled(fork_server, convolutional_network(), tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="session")
def small(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> CompiledOnce:
    """A model that builds in a fraction of the time."""
    return compiled(fork_server, flattened(), tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def with_entries(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> CompiledOnce:
    return compiled(fork_server, two_entries(), tmp_path_factory.mktemp("entries"))


@pytest.fixture(scope="session")
def with_tuples(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> CompiledOnce:
    return compiled(fork_server, tuples(), tmp_path_factory.mktemp("tuples"))


@pytest.fixture(scope="session")
def with_caches(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> CompiledOnce:
    return compiled(fork_server, two_caches(), tmp_path_factory.mktemp("caches"))
