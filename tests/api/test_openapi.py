"""The OpenAPI document tells the truth: requests derived from it get documented answers, and never a 5xx."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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

from tests.api.modules import exponential_json
from tests.api.stored import furnished, lane
from tunefarm_schemas.token import Scope
from tunefarm_services.api.app import create_app
from tunefarm_services.api.intake import ZygoteIntake
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
def authorized(tmp_path_factory: pytest.TempPathFactory, intake: ZygoteIntake) -> Iterator[dict[str, Any]]:
    home: Path = tmp_path_factory.mktemp("openapi")
    store = Store.open(f"sqlite:///{home}/tunefarm.db", home / "blobs")
    limits = {"rate_limit": "100000/second", "refused_rate_limit": "100000/second", "open_jobs_per_tenant": 100_000}
    app = create_app(store, ApiSettings(home=home, public_docs=True, **limits), intake=intake)
    furnished(store, "local")
    store.put_lane(lane())
    _, text = store.create_token("local", "all", tuple(Scope))
    yield {"app": app, "headers": {"Authorization": f"Bearer {text}"}}
    store.close()


def test_every_operation_answers_as_documented(authorized):
    assert not departures(authorized, examples=4, derandomize=True)


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_every_operation_answers_as_documented_for_long(authorized):
    assert not departures(authorized, examples=200, derandomize=False)


def departures(authorized: dict[str, Any], *, examples: int, derandomize: bool) -> list[str]:
    """Where answers to derived requests differ from the document, operation by operation."""
    document = schemathesis.openapi.from_asgi("/openapi.json", authorized["app"])
    found: list[str] = []
    for result in document.get_all_operations():
        operation = result.ok()
        if operation.path.endswith("/events"):
            continue  # a stream of a job that goes on does not end
        try:
            _ask(operation, authorized["headers"], examples, derandomize=derandomize)
        except Exception as error:  # noqa: BLE001 - each departure is told, not only the first
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


def test_every_operation_has_a_summary_and_its_problems(authorized):
    for path, operations in authorized["app"].openapi()["paths"].items():
        for method, operation in operations.items():
            assert operation["description"], (method, path)
            if path not in {"/healthz", "/readyz"}:
                assert {"401", "403", "429", "503"} <= operation["responses"].keys(), (method, path)


def test_bodies_come_with_examples(authorized):
    schemas = authorized["app"].openapi()["components"]["schemas"]
    assert schemas["JobBody"]["examples"]
    assert schemas["Problem"]["examples"]
    assert exponential_json().startswith("{")
