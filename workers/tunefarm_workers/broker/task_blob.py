"""Tasks as JSON blobs."""

from pydantic import ValidationError

from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.broker.blobs import Blobs


class TaskNotThere(Exception):
    """Raised when the blob of a task is missing, invalid, or of another exploration."""


def fetched_task(blobs: Blobs, task_digest: str, exploration_id: str) -> MeasureTask:
    """Fetch the task of an exploration. Raises TaskNotThere, BlobsUnavailable."""
    content = blobs.get(task_digest)
    if content is None:
        raise TaskNotThere(task_digest)
    try:
        task = MeasureTask.model_validate_json(content)
    except ValidationError as error:
        raise TaskNotThere(f"{task_digest} is not a task: {error}") from error
    if task.exploration_id != exploration_id:
        raise TaskNotThere(f"{task_digest} is the task of another exploration")
    return task
