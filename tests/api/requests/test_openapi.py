"""The OpenAPI document is accurate: requests derived from it get documented answers, and never a 5xx."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.stored import furnished, lane
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_services.api.application.app import create_app
from tunefarm_services.api.bodies.body import Body
from tunefarm_services.api.bodies.module import ModuleBody
from tunefarm_services.api.intake.intake import Intake
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.store import Store

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]


@pytest.fixture(scope="module")
def authorized(tmp_path_factory: pytest.TempPathFactory, intake: Intake) -> Iterator[dict[str, Any]]:
    home: Path = tmp_path_factory.mktemp("openapi")
    store = Store.open(f"sqlite:///{home}/tunefarm.db", home / "blobs")
    limits = {"rate_limit": "100000/second", "refused_rate_limit": "100000/second", "open_jobs_per_tenant": 100_000}
    app = create_app(store, ApiSettings(home=home, public_docs=True, **limits), intake=intake)
    belongings = furnished(store, "local")
    finished = store.jobs.set_state(belongings.lease, JobState.FINISHED, JobOutcome.SUCCEEDED)
    store.lanes.put(lane())
    _, text = store.tokens.create("local", "all", tuple(Scope))
    yield {"app": app, "headers": {"Authorization": f"Bearer {text}"}, "finished_job_id": finished.job_id}
    store.close()


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.extended)])
def test_operations_answer_as_documented(authorized, every):
    assert not departures(authorized, examples=2, derandomize=True, every=every)


@pytest.mark.faults
def test_operations_answer_as_documented_for_many_requests(authorized):
    assert not departures(authorized, examples=200, derandomize=False)


def departures(authorized: dict[str, Any], *, examples: int, derandomize: bool, every: int = 1) -> list[str]:
    """Differences between the document and the answers to derived requests, by operation; of each ``every`` one."""
    document = schemathesis.openapi.from_asgi("/openapi.json", authorized["app"])
    found: list[str] = []
    for result in islice(document.get_all_operations(), 0, None, every):
        operation = result.ok()
        try:
            _ask(operation, authorized["headers"], examples, derandomize=derandomize)
        except Exception as error:  # noqa: BLE001 - reports every difference, not only the first
            found.append(f"{operation.label}: {error}")
    return found


def _ask(operation: Any, headers: dict[str, str], examples: int, *, derandomize: bool) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        derandomize=derandomize,
        database=None,
        print_blob=False,
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        case.call_and_validate(headers=headers, checks=CHECKS)

    ask()


def test_operations_document_summary_and_problems(authorized):
    for path, operations in authorized["app"].openapi()["paths"].items():
        for method, operation in operations.items():
            assert operation["description"], (method, path)
            assert operation["description"].startswith(operation["summary"]), (method, path)
            assert len(operation["summary"]) > len("Get"), (method, path)
            if path not in {"/healthz", "/readyz"}:
                assert {"401", "403", "429", "503"} <= operation["responses"].keys(), (method, path)


def test_event_stream_answers_as_documented(authorized):
    document = schemathesis.openapi.from_asgi("/openapi.json", authorized["app"])
    path_parameters = {"job_id": authorized["finished_job_id"]}
    case = document["/v1/jobs/{job_id}/events"]["GET"].Case(path_parameters=path_parameters)
    answer = case.call_and_validate(headers=authorized["headers"], checks=CHECKS)
    assert answer.status_code == 200
    assert "event: created" in answer.text


def test_request_bodies_have_valid_examples(authorized):
    app = authorized["app"]
    document = app.openapi()
    schemas = document["components"]["schemas"]
    assert schemas["Problem"]["examples"]
    bodies = {each.__name__: each for each in (*Body.__subclasses__(), *ModuleBody.__subclasses__())}
    names = {
        content["schema"]["$ref"].rpartition("/")[2]
        for operations in document["paths"].values()
        for operation in operations.values()
        for kind, content in operation.get("requestBody", {}).get("content", {}).items()
        if kind == "application/json"
    }
    assert {"JobBody", "BestBody", "PublishBody", "ExportBody", "ModuleBody"} <= names
    for name in names - {"EnrolmentRequest", "EdgePoll", "EdgeReports"}:  # the golden files have their examples
        examples = schemas[name]["examples"]
        assert examples, name
        for example in examples:
            jsonschema.validate(example, document | {"$ref": f"#/components/schemas/{name}"})
            bodies[name].model_validate(example)


def test_document_has_both_forms_of_a_job(authorized):
    document = authorized["app"].openapi() | {"$ref": "#/components/schemas/JobBody"}
    jsonschema.validate({"workload_id": "a", "name": "b"}, document)
    jsonschema.validate({"modules": [{"workload_id": "a"}]}, document)
    for wrong in ({"target": "host"}, {"workload_id": "a", "modules": [{"workload_id": "a"}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, document)
