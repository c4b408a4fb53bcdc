"""A job of a service, held by whoever waits for it."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from tunefarm.http.async_transport import AsyncTransport
from tunefarm.http.calls.artifact_calls import RemoteArtifact
from tunefarm.http.calls.job_calls import job_deletion, job_events, job_verb, job_view
from tunefarm.http.event_stream import EventStream, RemoteEvent
from tunefarm.http.transport import Transport
from tunefarm.remote.event_text import show
from tunefarm.remote.job_result import artifact_of_job, artifacts_of_job, job_records, job_summary, job_trials
from tunefarm_schemas.tuning.job import Job, JobOutcome, JobState
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.views.job import NewJob
from tunefarm_schemas.views.trial import TrialView


class _Handle:
    """What is known of a job without asking.

    Attributes:
        view: the job as it was when it was last looked at.
        notes: what the service said of the target when it took the job.
        summary: how it ended, task by task, once its events were read to the end; empty before.
    """

    def __init__(self, view: Job) -> None:
        self.view = view
        self.notes = view.notes if isinstance(view, NewJob) else ()
        self.summary: Mapping[str, Any] = {}

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self.view.job_id

    @property
    def state(self) -> JobState:
        """Where it was in its life when it was last looked at."""
        return self.view.state

    @property
    def outcome(self) -> JobOutcome | None:
        """How it ended; None before it has."""
        return self.view.outcome

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.job_id}, {self.view.outcome or self.view.state})"

    def _note(self, event: RemoteEvent) -> None:
        if event.kind == "summary":
            self.summary = event.data


class RemoteJob(_Handle):
    """A job of a service."""

    def __init__(self, transport: Transport, view: Job) -> None:
        super().__init__(view)
        self.transport = transport

    def refresh(self) -> Job:
        """Look at the job again."""
        self.view = self.transport.run(job_view(self.job_id))
        return self.view

    def pause(self) -> Job:
        """Ask for it to be paused; what was measured is kept."""
        return self._ask("pause")

    def resume(self) -> Job:
        """Ask for it to go on."""
        return self._ask("resume")

    def cancel(self) -> Job:
        """Ask for it to be canceled; what was measured is kept."""
        return self._ask("cancel")

    def finish(self) -> Job:
        """Ask for its search to end; its best is verified and shipped. ``wait`` for that."""
        return self._ask("finish")

    def delete(self) -> None:
        """Remove it and its events."""
        self.transport.run(job_deletion(self.job_id))

    def events(self, after: int = 0) -> Iterator[RemoteEvent]:
        """Its events later than number ``after``, until its last; waits for those still to come."""
        for event in self.transport.events(EventStream(self.job_id, after)):
            self._note(event)
            yield event

    def past_events(self) -> list[RemoteEvent]:
        """Its events so far."""
        return self.transport.run(job_events(self.job_id))

    def read_summary(self) -> Mapping[str, Any]:
        """How it ended, task by task; empty before it has."""
        self.summary = self.transport.run(job_summary(self.job_id))
        return self.summary

    def wait(self, *, progress: bool = True) -> Job:
        """Wait until it ends, showing its progress on standard error unless ``progress`` is off."""
        from tunefarm.terminal.progress_display import progress_display

        if not progress:
            for _ in self.events():
                pass
            return self.refresh()
        with progress_display() as display:
            for event in self.events():
                show(event, display)
        return self.refresh()

    def trials(self, *, failed_only: bool = False, limit: int | None = None) -> list[TrialView]:
        """What was tried for it, with what came of each; only what gave no time if ``failed_only``."""
        return self.transport.run(job_trials(self.job_id, failed_only=failed_only, limit=limit))

    def records(self) -> list[TuningRecord]:
        """The best verified record of each of its tasks, once there is one."""
        return self.transport.run(job_records(self.job_id))

    def artifacts(self) -> list[RemoteArtifact | None]:
        """The compiled library of each of its tasks, in their order; None for a task that has none."""
        return self.transport.run(artifacts_of_job(self.job_id))

    def artifact(self, task: str | None = None) -> RemoteArtifact:
        """The compiled library of its task; of the named one, where it has several.

        Raises:
            BadInput: it has none, or several and none was named.
        """
        return self.transport.run(artifact_of_job(self.job_id, task))

    def _ask(self, verb: str) -> Job:
        self.view = self.transport.run(job_verb(self.job_id, verb))
        return self.view


class AsyncRemoteJob(_Handle):
    """A job of a service, awaited."""

    def __init__(self, transport: AsyncTransport, view: Job) -> None:
        super().__init__(view)
        self.transport = transport

    async def refresh(self) -> Job:
        """Look at the job again."""
        self.view = await self.transport.run(job_view(self.job_id))
        return self.view

    async def pause(self) -> Job:
        """Ask for it to be paused; what was measured is kept."""
        return await self._ask("pause")

    async def resume(self) -> Job:
        """Ask for it to go on."""
        return await self._ask("resume")

    async def cancel(self) -> Job:
        """Ask for it to be canceled; what was measured is kept."""
        return await self._ask("cancel")

    async def finish(self) -> Job:
        """Ask for its search to end; its best is verified and shipped. ``wait`` for that."""
        return await self._ask("finish")

    async def delete(self) -> None:
        """Remove it and its events."""
        await self.transport.run(job_deletion(self.job_id))

    async def events(self, after: int = 0) -> AsyncIterator[RemoteEvent]:
        """Its events later than number ``after``, until its last; waits for those still to come."""
        async for event in self.transport.events(EventStream(self.job_id, after)):
            self._note(event)
            yield event

    async def past_events(self) -> list[RemoteEvent]:
        """Its events so far."""
        return await self.transport.run(job_events(self.job_id))

    async def read_summary(self) -> Mapping[str, Any]:
        """How it ended, task by task; empty before it has."""
        self.summary = await self.transport.run(job_summary(self.job_id))
        return self.summary

    async def wait(self, *, progress: bool = True) -> Job:
        """Wait until it ends, showing its progress on standard error unless ``progress`` is off."""
        from tunefarm.terminal.progress_display import progress_display

        if not progress:
            async for _ in self.events():
                pass
            return await self.refresh()
        with progress_display() as display:
            async for event in self.events():
                show(event, display)
        return await self.refresh()

    async def trials(self, *, failed_only: bool = False, limit: int | None = None) -> list[TrialView]:
        """What was tried for it, with what came of each; only what gave no time if ``failed_only``."""
        return await self.transport.run(job_trials(self.job_id, failed_only=failed_only, limit=limit))

    async def records(self) -> list[TuningRecord]:
        """The best verified record of each of its tasks, once there is one."""
        return await self.transport.run(job_records(self.job_id))

    async def artifacts(self) -> list[RemoteArtifact | None]:
        """The compiled library of each of its tasks, in their order; None for a task that has none."""
        return await self.transport.run(artifacts_of_job(self.job_id))

    async def artifact(self, task: str | None = None) -> RemoteArtifact:
        """The compiled library of its task; of the named one, where it has several.

        Raises:
            BadInput: it has none, or several and none was named.
        """
        return await self.transport.run(artifact_of_job(self.job_id, task))

    async def _ask(self, verb: str) -> Job:
        self.view = await self.transport.run(job_verb(self.job_id, verb))
        return self.view
