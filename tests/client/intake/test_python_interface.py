"""What Python callers see: real signatures, TVM's own objects as arguments, errors to import, short results."""

import inspect
import json
from typing import Any

import pytest
import tvm

import tunefarm
from tests.client.programs.matmul import Module
from tunefarm.http.calls.record_calls import best_records, publication
from tunefarm.http.calls.workload_calls import new_workloads, target_validation
from tunefarm.remote import async_nouns, nouns
from tunefarm.remote.remote_job import AsyncRemoteJob, RemoteJob
from tunefarm.remote.tune_request import TuneRequest
from tunefarm.terminal.summary_text import summary_text
from tunefarm.tuning_result import TuningResult
from tunefarm_schemas.tuning.job import StopReason
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.tuner.summary import JobSummary, TaskSummary

TARGET = {"kind": "llvm", "num-cores": 1}
MODULE_JSON = str(tvm.ir.save_json(Module))
KINDS = [name for name in vars(nouns) if f"Async{name}" in vars(async_nouns)]


def methods_of(kind: type[Any]) -> dict[str, inspect.Signature]:
    found = {name: value for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}
    return {name: inspect.signature(value) for name, value in found.items()}


def parameters_of(signature: inspect.Signature) -> list[tuple[str, Any]]:
    return [(each.name, each.default) for each in signature.parameters.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_methods_show_what_they_take_and_both_clients_take_the_same(kind: str) -> None:
    blocking, awaited = methods_of(getattr(nouns, kind)), methods_of(getattr(async_nouns, f"Async{kind}"))
    assert blocking
    assert {name: parameters_of(each) for name, each in blocking.items()} == {
        name: parameters_of(each) for name, each in awaited.items()
    }
    for name, signature in blocking.items():
        kinds = {each.kind for each in signature.parameters.values()}
        assert not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}, name
        assert signature.return_annotation is not inspect.Signature.empty, name


def test_both_clients_and_both_jobs_take_the_same_arguments() -> None:
    for one, other in ((tunefarm.Client, tunefarm.AsyncClient), (RemoteJob, AsyncRemoteJob)):
        blocking, awaited = methods_of(one), methods_of(other)
        assert {name: parameters_of(each) for name, each in blocking.items()} == {
            name: parameters_of(each) for name, each in awaited.items()
        }
    assert {"target", "trials", "labels"} <= set(inspect.signature(tunefarm.Client.tune).parameters)


@pytest.mark.parametrize("module", [Module, Module["main"], MODULE_JSON], ids=["IRModule", "PrimFunc", "JSON"])
@pytest.mark.parametrize("target", [tvm.target.Target(TARGET), TARGET], ids=["Target", "dictionary"])
def test_modules_and_targets_are_sent_in_whatever_form_a_caller_has_them(module: Any, target: Any) -> None:
    sent = [
        next(best_records(module, target=target)).body,
        next(publication(module, target=target, trace=Trace(text="[[],[]]"), latency_s=1.0)).body,
        {**next(new_workloads(module)).body, **next(target_validation(target)).body},
    ]
    for body in sent:
        loaded = tvm.ir.load_json(body["module"])
        tvm.ir.assert_structural_equal(loaded["main"].body, Module["main"].body)
        assert body["target"]["num-cores"] == 1


def test_tune_takes_a_target_of_tvm() -> None:
    request = TuneRequest.of(Module, target=tvm.target.Target(TARGET))
    assert json.loads(request.intake.target)["num-cores"] == 1


@pytest.mark.parametrize(("field", "arguments"), [("module", (object(),)), ("target", (Module, object()))])
def test_an_object_of_another_kind_is_refused_by_name(field: str, arguments: tuple[Any, ...]) -> None:
    module, target = (*arguments, None)[:2]
    with pytest.raises(tunefarm.BadInput) as refused:
        TuneRequest.of(module, target=target)
    assert refused.value.field == field
    assert "object" in refused.value.problem


@pytest.mark.parametrize("name", tunefarm.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
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
def test_a_summary_says_why_the_search_stopped(reason: StopReason | None) -> None:
    text = summary_text(summary_of(trials=1, stop_reason=reason), None)
    assert ("  stopped  " in text) == (reason is not None)
    assert "  1 trial (" in text


def test_a_summary_says_that_a_record_was_taken_while_the_host_was_busy() -> None:
    text = summary_text(summary_of(trials=1, was_busy=True), None)
    assert "(36 us to 37.2 us over fresh processes; taken while the host was busy)" in text
    assert "busy" not in summary_text(summary_of(trials=1), None)


def test_a_result_prints_as_one_short_line() -> None:
    summary = summary_of()
    result = TuningResult(
        summary=summary, record=None, manifest=None, library=b"\x7fELF" * 9000, module_json="{" * 9000
    )
    assert "36.1 us" in str(result)
    assert "10x faster" in str(result)
    assert len(str(result)) < 200
