"""Messages to and from the intake child."""

from collections.abc import Iterator
from typing import Final

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Sketch, Trace
from tunefarm_schemas.tuning.workload import Workload


class ModuleText(Frozen):
    """A module of a request, and its functions to use. ``name`` is for the workload."""

    module_json: str = Field(repr=False)
    function: str | None = None
    all_functions: bool = False
    name: str | None = None
    weight: float = 1.0


SHARED: Final = "threads share"
"""Part of the note on a target with more threads than cores."""


class TargetText(Frozen):
    """A target of a request: ``host`` or ``host:THREADS``, a tag, or JSON text of an object."""

    text: str
    host_cores: int | None = None
    """Threads of the host target; the host's physical cores if None."""


class ModuleQuestion(Frozen):
    """Modules to read, with the target and the schedules of the request. Traces are JSON text.

    ``callees`` are functions outside of a module that it may call.
    """

    modules: tuple[ModuleText, ...]
    target: TargetText | Target | None = None
    sketches: tuple[str, ...] = ()
    seed_traces: tuple[str, ...] = ()
    callees: tuple[str, ...] = ()


class UnderstoodWorkload(Frozen):
    """One function of a module, normalised."""

    workload: Workload
    weight: float


class ModuleAnswer(Frozen):
    """The modules' workloads in order. ``notes`` list what was filled in."""

    workloads: tuple[UnderstoodWorkload, ...]
    target: Target | None
    sketches: tuple[Sketch, ...]
    seed_traces: tuple[Trace, ...]
    notes: tuple[str, ...]
    untuned_functions: tuple[str, ...] = ()
    """Functions of the modules that are not TIR."""
    of_model: bool = False
    """Whether a module was a model, whose functions are among the workloads."""
    has_weights: bool = False
    """Whether the only module is a model whose weights are all constants."""


class TargetAnswer(Frozen):
    """A target in canonical form."""

    target: Target
    notes: tuple[str, ...]


class DatabaseText(Frozen):
    """Both files of a TVM database."""

    workloads: str = Field(repr=False)
    records: str = Field(repr=False)


class DatabaseEntry(Frozen):
    """One record of a TVM database. The latency is in seconds."""

    workload_id: str
    target_id: str
    trace: Trace
    latency_s: float


class DatabaseEntries(Frozen):
    """Records to write, with each workload and target once."""

    workloads: tuple[Workload, ...]
    targets: tuple[Target, ...]
    accepted: tuple[DatabaseEntry, ...]

    def whole(self) -> Iterator[tuple[DatabaseEntry, Workload, Target]]:
        """Each valid record with its workload and its target."""
        workloads = {workload.workload_id: workload for workload in self.workloads}
        targets = {target.target_id: target for target in self.targets}
        for entry in self.accepted:
            yield entry, workloads[entry.workload_id], targets[entry.target_id]
