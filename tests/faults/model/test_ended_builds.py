"""A function whose schedule ends the child that builds it is compiled without that schedule."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.client.model.conftest import compiled
from tests.search.relax.models import flattened
from tunefarm.model.loaded_model import load_model
from tunefarm.startup.preloading import PRELOAD
from tunefarm_sandbox.fork_server.fork_server import ForkServer


@pytest.fixture
def server_of_ended() -> Iterator[ForkServer]:
    root = str(Path(__file__).parents[3])
    with ForkServer.start((*PRELOAD, "tests.servers.ended_by_schedules"), environment={"PYTHONPATH": root}) as started:
        yield started


@pytest.mark.faults
def test_function_whose_schedule_ends_its_child_is_compiled_without_one(
    server_of_ended: ForkServer, tmp_path: Path
) -> None:
    found = compiled(server_of_ended, flattened(), tmp_path / "model")
    functions = found.compilation.manifest.functions
    assert {each.kind for each in functions} == {"unscheduled"}
    assert {"SIGSEGV" in found.compilation.problems[each.name] for each in functions} == {True}
    result = load_model(found.folder)(*found.model.inputs)
    np.testing.assert_allclose(result, found.model.expected(*found.model.inputs), rtol=1e-4, atol=1e-4)
