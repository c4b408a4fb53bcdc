"""A compile lane remembers tasks, each for its own exploration only."""

import pytest

from tests.workers import workloads
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.broker.task_blob import TaskNotThere
from tunefarm_workers.compile.known_tasks import KnownTasks

TASK = MeasureTask(
    exploration_id="own",
    workload_id="workload",
    module_json="{}",
    target=workloads.TARGET,
    num_cores=2,
    protocol_id=workloads.HOT,
    abi="stable",
)
CONTENT = TASK.model_dump_json().encode()


class OneBlob:
    def __init__(self) -> None:
        self.fetched = 0

    def get(self, digest_: str) -> bytes | None:
        self.fetched += 1
        return CONTENT if digest_ == digest(CONTENT) else None

    def put(self, content: bytes) -> str:
        raise AssertionError(content)


def test_known_task_is_fetched_once_per_exploration() -> None:
    blobs = OneBlob()
    known = KnownTasks(blobs)
    assert known.task(digest(CONTENT), "own") == TASK
    assert known.task(digest(CONTENT), "own") == TASK
    assert blobs.fetched == 1
    with pytest.raises(TaskNotThere, match="another exploration"):
        known.task(digest(CONTENT), "other")
