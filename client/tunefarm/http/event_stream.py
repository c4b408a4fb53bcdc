"""The events of one job, over any number of connections."""

import json
from collections.abc import Mapping
from typing import Final

from httpx_sse import ServerSentEvent
from pydantic import ValidationError

from tunefarm_schemas.tuning.job import Event, JobState

READ_TIMEOUT_S: Final = 60.0
"""A connection silent for this long is lost: the service sends a comment more often."""
BETWEEN_CONNECTIONS_S: Final = 0.5


class EventStream:
    """The position of a reader in a job's events.

    Attributes:
        job_id: the job.
        last_sequence: the number of the last event received; 0 before the first.
        is_complete: whether the job's last event was received.
    """

    def __init__(self, job_id: str, after: int = 0) -> None:
        self.job_id = job_id
        self.last_sequence = after
        self.is_complete = False
        self._at_connection = after

    @property
    def path(self) -> str:
        """The path below ``/v1``."""
        return f"/jobs/{self.job_id}/events"

    def headers(self) -> dict[str, str]:
        """The headers of a new connection, which resume after the last event."""
        self._at_connection = self.last_sequence
        resumed = {"Last-Event-ID": str(self.last_sequence)} if self.last_sequence else {}
        return {"Accept": "text/event-stream", "Cache-Control": "no-store", **resumed}

    def take(self, received: ServerSentEvent) -> Event | None:
        """The event; None if it was received before."""
        event = _event(self.job_id, received)
        if event is None or event.sequence <= self.last_sequence:
            return None
        self.last_sequence = event.sequence
        self.is_complete = event.ends_job
        return event

    def note_orderly_end(self, state: JobState) -> None:
        """Handle a connection that the service closed while the job was in ``state``.

        A restart of the service closes connections too, so the stream is complete only if the job is finished and the
        connection brought no new event.
        """
        if state is JobState.FINISHED and self.last_sequence == self._at_connection:
            self.is_complete = True


def _event(job_id: str, received: ServerSentEvent) -> Event | None:
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
        return Event.model_validate(value if "sequence" in value else named, extra="ignore")
    except ValidationError:
        return None
