"""One machine as a whole tuner: a SQLite store, a local farm and a supervisor, put together here and nowhere else.

``tune`` is the Python interface; the command line uses ``Embedded`` directly.
"""

import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from tunefarm.confined.call import call
from tunefarm.host_cores import usable_physical_cores
from tunefarm.installation import open_store, private_folder
from tunefarm.intake.intake_request import IntakeAnswer, IntakeRequest
from tunefarm.intake.module_source import PythonSource
from tunefarm.job_options import JobOptions
from tunefarm.python_input import PythonInput
from tunefarm.tuning_result import TuningResult
from tunefarm.zygote import start_zygote
from tunefarm_sandbox.fork_server import Child, ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.device import HOT_CACHE
from tunefarm_schemas.job import Job, JobSpec, JobState, Strategy
from tunefarm_schemas.record import TuningRecord
from tunefarm_schemas.workload import Abi, Task
from tunefarm_services.settings import Settings
from tunefarm_services.store import LOCAL_TENANT, Store

if TYPE_CHECKING:
    from tunefarm_services.tuner.summary import JobSummary, Progress
    from tunefarm_services.tuner.supervisor import Supervisor
    from tunefarm_workers.local_farm import LocalFarm

INTAKE_ENTRY: Final = "tunefarm.intake.child:main"


class Embedded(AbstractContextManager["Embedded"]):
    """The parts of one machine, made when they are first needed and ended together."""

    def __init__(self, settings: Settings | None = None, zygote: ForkServer | None = None) -> None:
        """``zygote`` is one that was started earlier; it is ended with the rest."""
        self.settings = settings or Settings()
        self._zygote = zygote
        self._store: Store | None = None
        self._farm: LocalFarm | None = None
        self._search_child: Child | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    @property
    def zygote(self) -> ForkServer:
        """The process that confined children are forked from."""
        if self._zygote is None:
            self._zygote = start_zygote()
        return self._zygote

    @property
    def store(self) -> Store:
        """The store under TUNEFARM_HOME, created when it is missing."""
        if self._store is None:
            self._store = open_store(self.settings)
        return self._store

    @property
    def farm(self) -> "LocalFarm":
        """The farm that measures on this machine."""
        if self._farm is None:
            from tunefarm_workers.local_farm import LocalFarm

            self._scratch = tempfile.TemporaryDirectory(dir=private_folder(self.settings, "scratch"))
            self._farm = LocalFarm(self.zygote, scratch=Path(self._scratch.name), bystanders=self._bystanders)
        return self._farm

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._farm is not None:
            self._farm.close()
        if self._scratch is not None:
            self._scratch.cleanup()
        if self._store is not None:
            self._store.close()
        if self._zygote is not None:
            self._zygote.close()

    def understand(self, request: IntakeRequest) -> IntakeAnswer:
        """Read a module, a target and a space in a confined child.

        Raises:
            BadInput: any part of the request cannot be tuned.
        """
        return call(
            self.zygote, INTAKE_ENTRY, request, IntakeAnswer, field="module", readable=readable_folders(request)
        )

    def create_job(self, answer: IntakeAnswer, options: JobOptions) -> Job:
        """Store a job over everything that was understood."""
        target = answer.target
        self.store.put_target(LOCAL_TENANT, target)
        for workload in answer.workloads:
            self.store.put_workload(LOCAL_TENANT, workload)
        spec = JobSpec(
            tasks=tuple(
                Task(workload_id=workload.workload_id, target_id=target.target_id, name=workload.name)
                for workload in answer.workloads
            ),
            effort=options.effort(),
            strategy=options.strategy,
            space=answer.space,
            seed_traces=answer.seed_traces,
            protocol_id=HOT_CACHE.protocol_id,
            abi=options.abi,
            seed=options.seed,
            fresh=options.fresh,
            labels=options.labels,
        )
        return self.store.create_job(LOCAL_TENANT, spec)

    def unfinished_job(self, job_id: str | None) -> Job:
        """The job to go on with: the one named, or the latest that is not finished.

        Raises:
            BadInput: there is none.
        """
        if job_id is None:
            unfinished = self.store.unfinished_jobs(LOCAL_TENANT)
            if not unfinished:
                raise BadInput("resume", "no job is unfinished.", "Start one: tunefarm tune MODULE.")
            return max(unfinished, key=lambda job: job.created_at)
        job = self.store.job(LOCAL_TENANT, job_id)
        if job.state is JobState.FINISHED:
            fix = "Run the same command without --resume and with more --trials: it goes on from the store."
            raise BadInput("resume", f"job {job_id} is finished.", fix)
        return job

    def workload_name(self, record: TuningRecord) -> str:
        """What the record's workload is called."""
        return self.store.workload(LOCAL_TENANT, record.key.workload_id).name

    def supervisor(
        self,
        *,
        started_at_s: float | None = None,
        on_progress: "Callable[[Progress], None]" = lambda _: None,
    ) -> "Supervisor":
        """A supervisor for one job on this machine's farm."""
        from tunefarm_services.tuner.supervisor import Supervisor, owner_name

        return Supervisor(
            self.store,
            self.farm,
            self.zygote,
            owner=owner_name(),
            started_at_s=started_at_s,
            on_progress=on_progress,
            on_search_child=self._keep_search_child,
        )

    def work(self, supervisor: "Supervisor", job: Job) -> "JobSummary":
        """Lease the job and work on it until it ends or is interrupted.

        Raises:
            BadInput: another process works on it.
        """
        from tunefarm_services.tuner.supervisor import LEASE_S, owner_name

        lease = self.store.lease_job(LOCAL_TENANT, job.job_id, owner_name(), LEASE_S)
        if lease is None:
            fix = f"Wait for it, or try again {LEASE_S:g} s after it was killed."
            raise BadInput("resume", f"another process works on job {job.job_id}.", fix)
        try:
            summary = supervisor.run(lease)
            self.store.append_event(lease, "summary", summary.model_dump(mode="json"))
            return summary
        finally:
            self.store.release(lease)

    def _bystanders(self) -> list[Child]:
        return [] if self._search_child is None else [self._search_child]

    def _keep_search_child(self, child: Child | None) -> None:
        self._search_child = child


def tune(
    module: Any,
    *,
    target: str | dict[str, object] | None = None,
    trials: int = JobOptions.model_fields["trials"].default,
    function: str | None = None,
    space: str | Callable[[Any], Any] | None = None,
    seed_traces: tuple[Any, ...] | list[Any] = (),
    strategy: Strategy = "evolutionary",
    seed: int = 0,
    seconds: float | None = None,
    fresh: bool = False,
    abi: Abi = "stable",
    on_progress: "Callable[[Progress], None]" = lambda _: None,
    settings: Settings | None = None,
) -> TuningResult:
    """Tune a function on this machine and return what came of it.

    Args:
        module: an IRModule, a PrimFunc, a list of te tensors, or text as the command line takes it: a file,
            ``FILE.py:FUNCTION``, ``te:NAME``, ``builtin:NAME``.
        target: a TVM target as a dictionary or its JSON; this host's processor when None.
        trials: how many candidates to measure at most.
        function: which of the module's functions, where it has several.
        space: a schedule function that samples its decisions, or ``FILE.py:FUNCTION``; TVM's rules when None.
        seed_traces: schedules to measure first: traces (TVM's, their JSON, or ours) or schedule functions.
        strategy: how candidates are chosen.
        seed: of everything random.
        seconds: the longest the search may take.
        fresh: ignore what the store knows.
        abi: whether constant arguments keep their layout.
        on_progress: called several times a second.
        settings: where to keep everything; read from the environment when None.

    Raises:
        BadInput: any part of it cannot be tuned.
    """
    began_s = time.time()
    options = JobOptions(trials=trials, seconds=seconds, strategy=strategy, seed=seed, fresh=fresh, abi=abi)
    options.effort()
    given = PythonInput.of(module, target=target, function=function, space=space, seed_traces=seed_traces, abi=abi)
    with Embedded(settings) as embedded:
        answer = given.complete(embedded.understand(given.request(usable_physical_cores())))
        job = embedded.create_job(answer, options)
        summary = embedded.work(embedded.supervisor(started_at_s=began_s, on_progress=on_progress), job)
        return TuningResult.of(embedded.store, summary)


def readable_folders(request: IntakeRequest) -> tuple[Path, ...]:
    """Folders that the intake child has to read: those of the files named, for files import their neighbours."""
    paths = [request.module.path] if isinstance(request.module, PythonSource) else []
    paths += [
        source.path for source in (request.space, *(seed.function for seed in request.seeds)) if source is not None
    ]
    return tuple(sorted({Path(path).parent for path in paths}))
