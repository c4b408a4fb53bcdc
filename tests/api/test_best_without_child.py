"""Queries for records that the store can answer do not wait for a child with TVM."""

from fastapi import FastAPI

from tests.api.people import person_of
from tests.api.stored import furnished
from tunefarm_sandbox.fork_server.fork_failed import ForkFailed
from tunefarm_services.api.application.app import create_app
from tunefarm_services.api.intake.intake import Intake
from tunefarm_services.api.intake.intake_messages import TargetText
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.store import Store

TARGET = '{"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}'


class Childless(Intake):
    """An intake on a host that cannot start processes."""

    def _ask(self, *_question: object, **_limits: object) -> None:
        raise ForkFailed("refused", "no more processes")


def test_stored_workload_and_target_need_no_child(store: Store, settings: ApiSettings) -> None:
    app: FastAPI = create_app(store, settings, intake=Childless(settings))
    alice = person_of(app, store, "alice")
    of_alice = furnished(store, "alice")
    query = {"workload_id": of_alice.workload_id, "target": of_alice.target_id}
    found = alice.get("/v1/records:best", params=query)
    assert [match["match"] for match in found.json()["items"]] == ["exact"]
    assert alice.get("/v1/records:best", params={**query, "target": TARGET}).status_code == 503


def test_target_is_canonicalised_once(intake: Intake) -> None:
    question = TargetText(text=TARGET, host_cores=2)
    first = intake.target(question)
    assert intake.knows_target(question)
    assert intake.target(question) is first
    assert not intake.knows_target(TargetText(text=TARGET, host_cores=3))
