"""A compile worker sends a hostile library to the process that loads libraries on a device."""

import threading

import pytest

from tests.libraries.hostile import MARKED, linked
from tests.workers import workloads
from tests.workers.measuring import RunningFarm, message_of, reason_of
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import Failed
from tunefarm_workers.compile.remote_build import RemoteBuild
from tunefarm_workers.session.device.session_messages import LibraryBuilt, LibraryShape


def hostile_build(*_: object) -> RemoteBuild:
    """The answer of a compile worker that an attacker controls."""
    build = RemoteBuild("order", lambda *_: 0.0, lambda _: False)
    built = LibraryBuilt(shape=LibraryShape(entry="main"), build_s=0.1).model_dump_json().encode()
    threading.Thread(target=build.answer, args=([built, linked(MARKED)],), daemon=True).start()
    return build


def test_hostile_library_is_never_loaded(running: RunningFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    monkeypatch.setattr(running.farm._compiler, "candidate", hostile_build)
    measured = running.measure(opened, workloads.tiled(module))
    assert reason_of(measured) is FailureReason.BUILD_ERROR
    assert "runs when it is loaded" in message_of(measured)
    exported = running.farm.export(workloads.export_order(opened, None))
    assert isinstance(exported, Failed)
    assert exported.failure.reason is FailureReason.BUILD_ERROR
