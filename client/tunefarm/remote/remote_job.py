"""Handles of jobs on a service."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from tunefarm.http.async_transport import AsyncTransport
from tunefarm.http.calls.artifact_calls import RemoteArtifact
from tunefarm.http.calls.job_calls import job_deletion, job_events, job_verb, job_view
from tunefarm.http.event_stream import EventStream
from tunefarm.http.method import Carrier, Noun, executed
from tunefarm.http.request import Flow
from tunefarm.http.transport import Transport
from tunefarm.remote.event_text import show
from tunefarm.remote.job_result import artifact_of_job, artifacts_of_job, job_records, job_summary, job_trials
from tunefarm_schemas.tuning.job import Event, Job, JobOutcome, JobState
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.views.jobs.job import NewJob
from tunefarm_schemas.views.jobs.trial import TrialView


class JobHandle(Noun[Carrier]):
    """A job on a service: its locally known state, and the calls for it.

    Attributes:
        view: the job when it was last fetched.
        notes: the service's notes on the target when the job was created.
        summary: the summary with one entry per task, once all events were read; empty before.
    """

    def __init__(self, transport: Carrier, view: Job) -> None:
        super().__init__(transport)
        self.view = view
        self.notes = view.notes if isinstance(view, NewJob) else ()
        self.summary: Mapping[str, Any] = {}

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self.view.job_id

    @property
    def state(self) -> JobState:
        """The state when the job was last fetched."""
        return self.view.state

    @property
    def outcome(self) -> JobOutcome | None:
        """The outcome; None before the job has ended."""
        return self.view.outcome

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.job_id}, {self.view.outcome or self.view.state})"

    @executed
    def refresh(self) -> Flow[Job]:
        """Fetch the current state of the job."""
        self.view = yield from job_view(self.job_id)
        return self.view

    @executed
    def pause(self) -> Flow[Job]:
        """Pause the job. Its measurements are kept."""
        return self._ask("pause")

    @executed
    def resume(self) -> Flow[Job]:
        """Resume the job."""
        return self._ask("resume")

    @executed
    def cancel(self) -> Flow[Job]:
        """Cancel the job. Its measurements are kept."""
        return self._ask("cancel")

    @executed
    def finish(self) -> Flow[Job]:
        """End the search early; the best schedule is verified and built. Call ``wait`` for the result."""
        return self._ask("finish")

    @executed
    def delete(self) -> Flow[None]:
        """Delete the job and its events."""
        return job_deletion(self.job_id)

    @executed
    def past_events(self) -> Flow[list[Event]]:
        """The job's events so far."""
        return job_events(self.job_id)

    @executed
    def read_summary(self) -> Flow[Mapping[str, Any]]:
        """The job's summary, with one entry per task; empty before it has ended."""
        self.summary = yield from job_summary(self.job_id)
        return self.summary

    @executed
    def trials(self, *, failed_only: bool = False, limit: int | None = None) -> Flow[list[TrialView]]:
        """The job's trials with their measurements; only those without a timing if ``failed_only``."""
        return job_trials(self.job_id, failed_only=failed_only, limit=limit)

    @executed
    def records(self) -> Flow[list[TuningRecord]]:
        """The best verified record of each task that has one."""
        return job_records(self.job_id)

    @executed
    def artifacts(self) -> Flow[list[RemoteArtifact | None]]:
        """The compiled library of each task, in order; None for a task without one."""
        return artifacts_of_job(self.job_id)

    @executed
    def artifact(self, task: str | None = None) -> Flow[RemoteArtifact]:
        """The compiled library of the task named ``task``, or of the only task.

        Raises:
            BadInput: there is no library, or there are several and ``task`` is None.
        """
        return artifact_of_job(self.job_id, task)

    def _ask(self, verb: str) -> Flow[Job]:
        self.view = yield from job_verb(self.job_id, verb)
        return self.view

    def _note(self, event: Event) -> None:
        if event.kind == "summary":
            self.summary = event.data


class RemoteJob(JobHandle[Transport]):
    """A job on a service."""

    def events(self, after: int = 0) -> Iterator[Event]:
        """The job's events after number ``after``, up to the last; waits for further events."""
        for event in self.transport.events(EventStream(self.job_id, after)):
            self._note(event)
            yield event

    def wait(self, *, progress: bool = True) -> Job:
        """Wait until the job ends; shows its progress on standard error unless ``progress`` is False."""
        from tunefarm.terminal.progress_display import progress_display

        if not progress:
            for _ in self.events():
                pass
            return self.refresh()
        with progress_display() as display:
            for event in self.events():
                show(event, display)
        return self.refresh()


class AsyncRemoteJob(JobHandle[AsyncTransport]):
    """A job on a service, for ``AsyncClient``."""

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """The job's events after number ``after``, up to the last; waits for further events."""
        async for event in self.transport.events(EventStream(self.job_id, after)):
            self._note(event)
            yield event

    async def wait(self, *, progress: bool = True) -> Job:
        """Wait until the job ends; shows its progress on standard error unless ``progress`` is False."""
        from tunefarm.terminal.progress_display import progress_display

        if not progress:
            async for _ in self.events():
                pass
            return await self.refresh()
        with progress_display() as display:
            async for event in self.events():
                show(event, display)
        return await self.refresh()
