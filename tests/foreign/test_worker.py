"""Hostile traces and modules that reach a worker through a row or a message."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.foreign import corpus
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.failure import FailureReason
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_workers.conversation.messages import Broken, LinkOrder, TaskOrder, from_linker

PAYLOADS = [item for item in corpus.traces() if item.name.startswith("pad value")]


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer.start([LOAD_TVM, "tunefarm_workers.child.link_child"]) as server:
        assert server.ready(120), server.failure
        yield server


def broken(fork_server: ForkServer, folder: Path, module: str, trace: str | None, target: object = None) -> Broken:
    task = TaskOrder(
        module_json=module,
        target=json.dumps(target or corpus.TARGET),
        num_cores=1,
        abi="stable",
        seed=0,
        distribution="normal",
    )
    order = LinkOrder(task=task, trace=trace, folder=str(folder)).model_dump_json().encode()
    confinement = Confinement.compiler(str(folder))
    with fork_server.fork(
        "tunefarm_workers.child.link_child:run", order, limits=Limits(), confinement=confinement
    ) as child:
        said = from_linker.validate_json(child.channel.receive(60))
    assert isinstance(said, Broken), said
    return said


@pytest.mark.parametrize("item", PAYLOADS, ids=lambda item: item.name)
@pytest.mark.quick_cases(8)
def test_worker_refuses_hostile_trace_before_building(
    fork_server: ForkServer, tmp_path: Path, item: corpus.Hostile
) -> None:
    said = broken(fork_server, tmp_path, corpus.module_json(), json.dumps(item.value))
    assert said.reason is FailureReason.INVALID_SCHEDULE
    assert "not allowed" in said.message
    assert "call" in said.message
    assert list(tmp_path.iterdir()) == []
    assert not Path(corpus.MARKER).exists()


@pytest.mark.parametrize("item", [i for i in corpus.modules() if i.name.startswith("module: call")][::4], ids=str)
@pytest.mark.quick_cases(4)
def test_worker_refuses_unvalidated_hostile_module(
    fork_server: ForkServer, tmp_path: Path, item: corpus.Hostile
) -> None:
    said = broken(fork_server, tmp_path, item.value, None)
    assert said.reason is FailureReason.INVALID_SCHEDULE
    assert "not allowed" in said.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("item", [i for i in corpus.targets() if "jit" in i.name or "cl-opt" in i.name], ids=str)
def test_worker_refuses_target_with_compiler_options(
    fork_server: ForkServer, tmp_path: Path, item: corpus.Hostile
) -> None:
    said = broken(fork_server, tmp_path, corpus.module_json(), None, item.value)
    assert said.reason is FailureReason.INVALID_SCHEDULE
    assert "attribute" in said.message
