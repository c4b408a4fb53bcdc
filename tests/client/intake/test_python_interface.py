"""The Python API: signatures, TVM objects as arguments, importable errors, short reprs."""

import inspect
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import tvm

import tunefarm
from tunefarm.http.calls.record_calls import best_records, publication
from tunefarm.http.calls.workload_calls import new_workloads, target_validation
from tunefarm.http.method import Noun
from tunefarm.remote import nouns
from tunefarm.remote.remote_job import AsyncRemoteJob, RemoteJob
from tunefarm.remote.tune_request import TuneRequest
from tunefarm.terminal.summary_text import summary_text
from tunefarm.tuning_result import TuningResult
from tunefarm_schemas.tuning.job import StopReason
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.views.jobs.summary import JobSummary, TaskSummary
from tunefarm_search.tvm.serialization import load_json

TARGET = {"kind": "llvm", "num-cores": 1}


@cache
def program() -> tvm.IRModule:
    from tests.client.programs.matmul import Module

    return Module


FORMS: dict[str, Callable[[], object]] = {
    "IRModule": program,
    "PrimFunc": lambda: program()["main"],
    "JSON": lambda: str(tvm.ir.save_json(program())),
}
KINDS = [name for name, kind in vars(nouns).items() if isinstance(kind, type) and kind in Noun.__subclasses__()]


def methods_of(kind: type[Any]) -> dict[str, inspect.Signature]:
    found = {name: value for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}
    return {name: inspect.signature(value) for name, value in found.items()}


def parameters_of(signature: inspect.Signature) -> list[tuple[str, Any]]:
    return [(each.name, each.default) for each in signature.parameters.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_resource_methods_show_their_arguments_and_results(kind: str) -> None:
    found = methods_of(getattr(nouns, kind))
    assert found
    for name, signature in found.items():
        kinds = {each.kind for each in signature.parameters.values()}
        assert not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}, name
        assert signature.return_annotation is not inspect.Signature.empty, name


def test_clients_and_jobs_have_equal_signatures() -> None:
    for one, other in ((tunefarm.Client, tunefarm.AsyncClient), (RemoteJob, AsyncRemoteJob)):
        blocking, awaited = methods_of(one), methods_of(other)
        assert {name: parameters_of(each) for name, each in blocking.items()} == {
            name: parameters_of(each) for name, each in awaited.items()
        }
    assert {"target", "trials", "labels"} <= set(inspect.signature(tunefarm.Client.tune).parameters)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", [tvm.target.Target(TARGET), TARGET], ids=["Target", "dictionary"])
def test_modules_and_targets_are_accepted_in_every_form(form: str, target: Any) -> None:
    module: Any = FORMS[form]()
    sent = [
        next(best_records(module, target=target)).body,
        next(publication(module, target=target, trace=Trace(text="[[],[]]"), latency_s=1.0)).body,
        {**next(new_workloads(module)).body, **next(target_validation(target)).body},
    ]
    for body in sent:
        loaded = load_json(body["module"])
        tvm.ir.assert_structural_equal(loaded["main"].body, program()["main"].body)
        assert body["target"]["num-cores"] == 1


def test_tune_accepts_tvm_target() -> None:
    request = TuneRequest.of(program(), target=tvm.target.Target(TARGET))
    assert json.loads(request.intake.target)["num-cores"] == 1


@pytest.mark.parametrize("field", ["module", "target"])
def test_unsupported_object_is_rejected_with_its_type(field: str) -> None:
    module, target = (object(), None) if field == "module" else (program(), object())
    with pytest.raises(tunefarm.BadInput) as refused:
        TuneRequest.of(module, target=target)
    assert refused.value.field == field
    assert "object" in refused.value.problem


@pytest.mark.parametrize("name", tunefarm.__all__)
def test_public_names_are_importable(name: str) -> None:
    assert getattr(tunefarm, name) is not None


def summary_of(**changes: Any) -> JobSummary:
    task = TaskSummary(
        name="matmul",
        exploration_id="0",
        best_latency_s=36.1e-6,
        untuned_latency_s=361e-6,
        interval_s=(36.0e-6, 37.2e-6),
        record_id="abc",
        artifact_id=None,
        trials=8,
        trials_in_store=8,
        stop_reason=None,
        failures={},
        first_failure_message="",
        improvements=(),
        answered_from_store=False,
    )
    return JobSummary(job_id="1", outcome=None, message="", tasks=(task.model_copy(update=changes),), seconds={})


@pytest.mark.parametrize("reason", [None, *StopReason])
def test_summary_reports_stop_reason(reason: StopReason | None) -> None:
    text = summary_text(summary_of(trials=1, stop_reason=reason), None)
    assert ("  stopped  " in text) == (reason is not None)
    assert "  1 trial (" in text


def test_summary_reports_busy_host() -> None:
    text = summary_text(summary_of(trials=1, was_busy=True), None)
    assert "(36 us to 37.2 us over fresh processes; taken while the host was busy)" in text
    assert "busy" not in summary_text(summary_of(trials=1), None)


def test_tuning_result_repr_is_one_line() -> None:
    summary = summary_of()
    result = TuningResult(
        summary=summary, record=None, manifest=None, library=b"\x7fELF" * 9000, module_json="{" * 9000
    )
    assert "36.1 us" in str(result)
    assert "10x faster" in str(result)
    assert len(str(result)) < 200
