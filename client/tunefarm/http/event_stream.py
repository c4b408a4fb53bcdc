"""The events of one job as they arrive, over however many connections."""

import json
from collections.abc import Mapping
from typing import Final

from httpx_sse import ServerSentEvent
from pydantic import Field, ValidationError

from tunefarm.http.request import Answer
from tunefarm_schemas.tuning.job import JobState

READ_TIMEOUT_S: Final = 60.0
"""A silent connection is taken for lost: the service sends a comment more often than that."""
BETWEEN_CONNECTIONS_S: Final = 0.5


class RemoteEvent(Answer):
    """One thing that happened to a job, numbered in order."""

    sequence: int
    job_id: str
    kind: str
    at: str
    data: dict[str, object] = Field(default_factory=dict)

    @property
    def ends_job(self) -> bool:
        """Whether nothing can follow: the summary of a job that ended is the last that is written."""
        return self.kind == "summary" and self.data.get("outcome") is not None


class EventStream:
    """Where the reader of a job's events stands.

    Attributes:
        job_id: whose events.
        last_sequence: the number of the last event that was seen; 0 before the first.
        is_complete: whether the last event there can be was seen.
    """

    def __init__(self, job_id: str, after: int = 0) -> None:
        self.job_id = job_id
        self.last_sequence = after
        self.is_complete = False
        self._at_connection = after

    @property
    def path(self) -> str:
        """The resource, below the version."""
        return f"/jobs/{self.job_id}/events"

    def headers(self) -> dict[str, str]:
        """What a new connection has to say, so that it goes on behind the last event."""
        self._at_connection = self.last_sequence
        resumed = {"Last-Event-ID": str(self.last_sequence)} if self.last_sequence else {}
        return {"Accept": "text/event-stream", "Cache-Control": "no-store", **resumed}

    def take(self, received: ServerSentEvent) -> RemoteEvent | None:
        """The event, if it is one that was not seen before."""
        event = _event(self.job_id, received)
        if event is None or event.sequence <= self.last_sequence:
            return None
        self.last_sequence = event.sequence
        self.is_complete = event.ends_job
        return event

    def note_orderly_end(self, state: JobState) -> None:
        """Take in that the service ended a connection while the job was in ``state``.

        A service that restarts does that too; so the end is believed only where a finished job had nothing more to say.
        """
        if state is JobState.FINISHED and self.last_sequence == self._at_connection:
            self.is_complete = True


def _event(job_id: str, received: ServerSentEvent) -> RemoteEvent | None:
    if not received.data:
        return None
    try:
        value = json.loads(received.data)
    except ValueError:
        return None
    if not isinstance(value, Mapping):
        return None
    named = {"sequence": received.id, "kind": received.event, "job_id": job_id, "at": "", "data": value}
    try:
        return RemoteEvent.model_validate(value if "sequence" in value else named)
    except ValidationError:
        return None
