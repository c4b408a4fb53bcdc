"""Every follower of a job receives each event once and in order, while the API is killed and restarted."""

from pathlib import Path

import pytest

from benchmarks.load.event_stream import watched


@pytest.mark.faults
def test_event_streams_survive_api_restarts(tmp_path: Path) -> None:
    found = watched(tmp_path, watchers=20, events=300, kills=2, pause_s=0.03)
    assert found.watchers_with_all_events_in_order == 20
    assert found.events > 300
    assert found.connections >= 60
