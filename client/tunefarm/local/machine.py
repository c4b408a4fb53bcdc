"""Tuning on one machine: assembles a store, a local farm and a supervisor."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

from tunefarm.confined.call import call
from tunefarm.intake.intake_request import IntakeAnswer, IntakeRequest
from tunefarm.intake.module_source import JsonSource
from tunefarm.intake.understanding import understand
from tunefarm.options.job_options import JobOptions
from tunefarm.options.required_confinement import require_confinement
from tunefarm.report.job_queries import named_job
from tunefarm.startup.fork_servers import start_fork_server
from tunefarm.startup.installation import has_store, open_store, private_folder
from tunefarm.startup.scratch_folder import ScratchFolder
from tunefarm.terminal.resume_option import module_of
from tunefarm_sandbox.fork_server.fork_server import Child, ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.job import Job, JobSpec, JobState, require_space_for
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.tuning.workload import Task, Workload
from tunefarm_services.known_workloads import recognised
from tunefarm_services.same_workload import SAME_ENTRY, SameAnswer, SameQuestion
from tunefarm_services.settings import Settings
from tunefarm_services.store import LOCAL_TENANT, Store
from tunefarm_services.telemetry.logs import warn_on_standard_error

if TYPE_CHECKING:
    from tunefarm_schemas.views.jobs.summary import JobSummary, Progress
    from tunefarm_services.tuner.job.supervisor import Supervisor
    from tunefarm_workers.lane.local_farm import LocalFarm


class LocalMachine(AbstractContextManager["LocalMachine"]):
    """The parts of a local tuner, each created on first use, all closed together."""

    def __init__(self, settings: Settings | None = None, fork_server: ForkServer | None = None) -> None:
        """``fork_server`` is a running one, closed with the other parts."""
        warn_on_standard_error()
        self.settings = settings or Settings()
        self._fork_server = fork_server
        self._store: Store | None = None
        self._farm: Future[LocalFarm] | None = None
        self._maker = ThreadPoolExecutor(max_workers=1)
        self._search_child: Child | None = None
        self._scratch: ScratchFolder | None = None

    @property
    def fork_server(self) -> ForkServer:
        """The process that confined children are forked from."""
        if self._fork_server is None:
            self._fork_server = start_fork_server()
        return self._fork_server

    @property
    def store(self) -> Store:
        """The store under TUNEFARM_HOME, created if it is missing."""
        if self._store is None:
            self._store = open_store(self.settings)
        return self._store

    @property
    def known_store(self) -> Store | None:
        """The store for read-only commands, or None: a missing store is not created."""
        return self.store if self._store is not None or has_store(self.settings) else None

    @property
    def farm(self) -> "LocalFarm":
        """The farm that measures on this machine."""
        self.prepare_farm()
        assert self._farm is not None
        return self._farm.result()

    def prepare_farm(self) -> None:
        """Start creating the farm in the background, because compiling its reference kernels takes a while.

        Raises:
            BadInput: candidates cannot be confined as the settings require.
        """
        if self._farm is None:
            require_confinement(self.settings)
            fork_server, store = self.fork_server, self.store
            self._scratch = ScratchFolder.within(private_folder(self.settings, "scratch"))
            self._farm = self._maker.submit(self._make_farm, fork_server, store, self._scratch.path)

    def _make_farm(self, fork_server: ForkServer, store: Store, scratch: Path) -> "LocalFarm":
        from tunefarm_workers.device.cpu_identity import cpu_identity, host_fingerprint
        from tunefarm_workers.lane.local_farm import LocalFarm

        # A known device keeps its class. Otherwise noise could assign another one, which hides its records.
        known = store.devices.get(LOCAL_TENANT, host_fingerprint(cpu_identity()))
        farm = LocalFarm(fork_server, scratch=scratch, known=known, bystanders=self._bystanders)
        if farm.device != known:
            farm.device = store.devices.put(LOCAL_TENANT, farm.device)
        return farm

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._fork_server is not None:
            self._fork_server.close()  # an unfinished farm fails now instead of being waited for
        self._maker.shutdown(wait=True)
        if self._farm is not None and self._farm.exception() is None:
            self._farm.result().close()
        if self._scratch is not None:
            self._scratch.close()
        if self._store is not None:
            self._store.close()
        if self._fork_server is not None:
            self._fork_server.close()

    def understand(self, request: IntakeRequest, convert: Callable[[], JsonSource] | None = None) -> IntakeAnswer:
        """Read a module, a target and a space in a confined child. ``convert`` is that of ``understand``.

        Raises:
            BadInput: any part of the request cannot be tuned.
        """
        return understand(self.fork_server, request.model_copy(update={"callees": self._callees}), convert)

    @property
    def _callees(self) -> tuple[str, ...]:
        return self.settings.callees.get(LOCAL_TENANT, ())

    def recognised(
        self, workloads: Sequence[Workload], *, with_schedules: bool, of_model: bool = False
    ) -> tuple[Workload, ...]:
        """Replace each workload that the store has with other variable names by the stored one.

        ``with_schedules``: schedules of the given workloads must also apply to the stored ones.
        """
        return recognised(
            self.store.workloads,
            LOCAL_TENANT,
            workloads,
            self.compare,
            with_schedules=with_schedules,
            of_model=of_model,
        )

    def create_job(self, answer: IntakeAnswer, options: JobOptions) -> Job:
        """Create a job for all workloads of the answer."""
        require_space_for(options.strategy, answer.space)
        target, of_model = answer.target, bool(answer.calls)
        self.store.targets.put(LOCAL_TENANT, target)
        with_schedules = bool(answer.space.sketches or answer.seed_traces)
        workloads = self.recognised(answer.workloads, with_schedules=with_schedules, of_model=of_model)
        for workload in workloads:
            self.store.workloads.put(LOCAL_TENANT, workload)
        spec = JobSpec(
            tasks=tuple(
                Task(workload_id=workload.workload_id, target_id=target.target_id, name=workload.name, weight=calls)
                for workload, calls in zip(workloads, answer.calls or repeat(1.0), strict=False)
            ),
            effort=options.effort(),
            strategy=options.strategy,
            space=answer.space,
            seed_traces=answer.seed_traces,
            protocol_id=options.protocol_id,
            abi=options.abi,
            seed=options.seed,
            fresh=options.fresh,
            labels=options.labels,
            input_specs=answer.input_specs,
            callees=self._callees,
            untuned_functions=answer.untuned_functions,
            of_model=of_model,
        )
        return self.store.jobs.create(LOCAL_TENANT, spec, examples=answer.input_examples)

    def unfinished_job(self, job_id: str | None, labels: Mapping[str, str]) -> Job:
        """The job to resume: the one whose id begins with ``job_id``, or the latest unfinished one with ``labels``.

        Raises:
            BadInput: no job or several jobs match, or the job is of another module than in ``labels``.
        """
        store = self.known_store
        if job_id is None:
            jobs = [] if store is None else store.jobs.unfinished(LOCAL_TENANT)
            unfinished = [job for job in jobs if labels.items() <= job.spec.labels.items()]
            if not unfinished:
                of_module = f" of {labels['module']}" if "module" in labels else ""
                raise BadInput("resume", f"there is no unfinished job{of_module}.", "Start one: tunefarm tune MODULE.")
            return max(unfinished, key=lambda job: job.created_at)
        job = named_job(None if store is None else store.jobs, job_id, field="resume")
        wanted, module = labels.get("module"), module_of(job)
        if wanted not in (None, module):
            fix = "Omit MODULE, or omit the id to resume the latest job of MODULE."
            raise BadInput("resume", f"job {job.job_id} tunes {module}, not {wanted}.", fix)
        if job.state is JobState.FINISHED:
            fix = "Run the same command without --resume and with more --trials. It reuses the results in the store."
            raise BadInput("resume", f"job {job.job_id} is finished.", fix)
        return job

    def workload_name(self, record: TuningRecord) -> str:
        """The name of the record's workload."""
        return self.store.workloads.get(LOCAL_TENANT, record.key.workload_id).name

    def supervisor(
        self,
        *,
        started_at_s: float | None = None,
        on_progress: "Callable[[Progress], None]" = lambda _: None,
    ) -> "Supervisor":
        """A supervisor for one job on this machine's farm."""
        from tunefarm_services.tuner.job.supervisor import Supervisor
        from tunefarm_services.tuner.service.owner import owner_name

        farm = self.farm
        return Supervisor(
            self.store,
            farm,
            self.fork_server,
            owner=owner_name(),
            started_at_s=started_at_s,
            on_progress=lambda progress: on_progress(progress.model_copy(update={"waits_for": farm.waits_for})),
            on_search_child=self._keep_search_child,
        )

    def work(self, supervisor: "Supervisor", job: Job) -> "JobSummary":
        """Lease the job and work on it until it ends or is interrupted.

        Raises:
            BadInput: another process holds its lease.
        """
        from tunefarm_services.tuner.job.supervisor import LEASE_S
        from tunefarm_services.tuner.service.owner import is_gone

        self.store.leases.release_abandoned(LOCAL_TENANT, is_gone)
        lease = self.store.leases.acquire(LOCAL_TENANT, job.job_id, supervisor.owner, LEASE_S)
        if lease is None:
            fix = f"Wait for it, or try again {LEASE_S:g} s after it was killed."
            raise BadInput("resume", f"another process works on job {job.job_id}.", fix)
        try:
            return supervisor.run(lease)
        finally:
            self.store.leases.release(lease)

    def compare(self, question: SameQuestion) -> SameAnswer:
        """Compare workloads in a confined child. Raises BadInput, ForkFailed."""
        return call(self.fork_server, SAME_ENTRY, question, SameAnswer, field="module")

    def _bystanders(self) -> list[Child]:
        return [] if self._search_child is None else [self._search_child]

    def _keep_search_child(self, child: Child | None) -> None:
        self._search_child = child
