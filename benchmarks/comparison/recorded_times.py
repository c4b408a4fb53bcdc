"""Recorded times for which candidates occupied a device."""

import json
from pathlib import Path
from typing import Final

TABLE: Final = Path(__file__).parents[2] / "tests" / "search" / "data" / "matmul_128_pool.json"
CALLS: Final = 100
MAX_RUN_S: Final = 0.1


def recorded_seconds(stretch: float = 1.0) -> list[float]:
    """The build time of each point of the table plus a hundred of its calls, at most a tenth of a second.

    ``stretch`` multiplies the times, for slower devices.
    """
    trials = json.loads(TABLE.read_text(encoding="utf-8"))["trials"]
    return [
        stretch * (build_s + min(CALLS * (latency_s or 0.0), MAX_RUN_S))
        for _sketch, _decisions, latency_s, build_s in trials
    ]
