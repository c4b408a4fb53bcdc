"""Requests to a lane by its name, id or worker id."""

from pathlib import Path

import pytest

from tests.contract.store.test_store_farm import lane
from tunefarm.server.lane_request import ask_lane
from tunefarm.startup.installation import open_store
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.lane import LaneRequest
from tunefarm_schemas.views.device import worker_id_of
from tunefarm_services.settings import Settings


def test_lane_is_found_by_name_id_or_worker_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEFARM_HOME", str(tmp_path))
    store = open_store(Settings(), create=True)
    mine, other = lane("a", worker_name="mine"), lane("b", worker_name="other")
    store.lanes.put_all([mine, other])
    for name in ("mine", "a", worker_id_of(mine)):
        assert ask_lane(name, "drain") == ("a", mine.state.value)
        assert store.lanes.requests() == {"a": LaneRequest.DRAIN}
        ask_lane(name, "resume")
    with pytest.raises(BadInput, match="no lane 'nobody'"):
        ask_lane("nobody", "drain")
    store.close()
