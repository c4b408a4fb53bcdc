"""Models on a service: sent whole or as functions, tuned, and their records applied by TVM itself."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.client_remote.conftest import ROOT, Service
from tests.search.relax.models import flattened
from tunefarm import ApiError, Client, RemoteDatabase
from tunefarm_schemas.tuning.job import JobOutcome
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.target import canonical_target

TARGET = {"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1}
RELAX_FILE = ROOT / "tests" / "client" / "programs" / "relax_model.py"


@pytest.fixture(scope="module")
def model_json(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with the model in TVM JSON, its weights as parameters."""
    path = tmp_path_factory.mktemp("model") / "net.json"
    path.write_text(str(tvm.ir.save_json(flattened().module)))
    return str(path)


@pytest.fixture(scope="module")
def tuned(service: Service, model_json: str) -> dict[str, Any]:
    """The summary of a job of the model, which the service splits into functions."""
    with Client(service.url, service.token) as client:
        job = client.tune(model_json, target=TARGET, trials=2)
        job.wait(progress=False)
        assert job.view.outcome is JobOutcome.SUCCEEDED, job.view.message
        assert job.view.spec.of_model
        return dict(job.summary)


def test_model_is_tuned_by_a_service(tuned: dict[str, Any]) -> None:
    assert tuned["of_model"]
    assert [task["trials"] for task in tuned["tasks"]] == [1, 1]
    assert all(task["record_id"] and task["weight"] == 1.0 for task in tuned["tasks"])


@pytest.mark.faults
def test_split_on_the_client_reuses_records_of_the_service(
    service: Service, tuned: dict[str, Any], tmp_path: Path
) -> None:
    model = flattened()
    program = tmp_path / "net.py"
    program.write_text(f"import tvm\nnet = tvm.ir.load_json({str(tvm.ir.save_json(model.module))!r})\n")
    words = ("submit", str(program), "--target", json.dumps(TARGET), "--trials", "2", "--wait", "--json")
    ended = service.command(*words)
    assert ended.code == 0, ended.err
    summary = json.loads(ended.out)["summary"]
    # Records of a busy host are timed again, and then have other ids.
    assert [task["trials"] for task in summary["tasks"]] == [0, 0]
    assert all(task["record_id"] for task in summary["tasks"])
    assert len(summary["tasks"]) == len(tuned["tasks"])


def test_tvm_applies_records_to_the_whole_prepared_model(service: Service, tuned: dict[str, Any]) -> None:
    model, target = flattened(), canonical_target(TARGET).target
    prepared = prepare(model.module, model.weights, target)
    with tvm.target.Target(TARGET), RemoteDatabase(service.url, service.token):
        applied = relax.transform.MetaScheduleApplyDatabase(enable_warning=True)(prepared.module)
    functions = [name for task in model_tasks(prepared) for name in task.functions]
    assert len(functions) == len(tuned["tasks"])
    assert all(bool(applied[name].attrs["tirx.is_scheduled"]) for name in functions)
    machine = relax.VirtualMachine(tvm.compile(applied, target=tvm.target.Target(TARGET)), tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(each) for each in model.inputs)).numpy()
    np.testing.assert_allclose(found, model.expected(*model.inputs), rtol=1e-3, atol=1e-3)


def test_service_names_the_field_that_does_not_fit_a_model(service: Service, model_json: str) -> None:
    with Client(service.url, service.token) as client, pytest.raises(ApiError) as refused:
        client.tune(model_json, target=TARGET, function="main", trials=1)
    assert refused.value.status == 422
    assert refused.value.field == "function"


@pytest.mark.extended  # tests of model_text and of conversions have the table and the split
def test_submit_shows_the_table_of_a_model(service: Service) -> None:
    ended = service.command("submit", str(RELAX_FILE), "--target", "host:1", "--trials", "1", "--wait")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[0].split()[:2] == ["function", "calls"]
    assert "predicted time of the model" in ended.out
