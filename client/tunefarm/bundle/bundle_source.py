"""What bundles are built from: a model, or the functions of records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tunefarm.bundle.link.compiled_files import COMPILED
from tunefarm.bundle.messages import (
    PLAN,
    PLAN_FUNCTIONS,
    WRITE_VECTORS,
    FunctionsPlanOrder,
    NamedFunction,
    PlannedParts,
    StaticPlanOrder,
    VectorCounts,
)
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.frontend.relax_model import ModelReference
from tunefarm.model.builders import own_folder
from tunefarm.model.child_call import compiling, exchange
from tunefarm.model.compilation import MAX_REFERENCE_OPERATIONS, Records
from tunefarm.model.function_orders import ChosenRecord, passed_weights
from tunefarm.model.messages import PrepareOrder
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.host_cores import usable_physical_cores
from tunefarm_schemas.tuning.bundle import BundleForm
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload

MAX_FUNCTIONS: Final = 256
"""Of one bundle."""


@dataclass(frozen=True)
class PlanMemory:
    """Files in memory that the planning child writes: the weights in their places, and test vectors."""

    placed: int
    vectors: int


class BundleSource(Protocol):
    """What a bundle is built from."""

    @property
    def framework(self) -> str:
        """What wrote it."""

    @property
    def notes(self) -> Sequence[str]:
        """What a user should know."""

    @property
    def references(self) -> Sequence[ModelReference]:
        """What its framework computed."""

    @property
    def needs_schedules(self) -> bool:
        """Whether a record whose schedule does not apply is an error, and not replaced by another schedule."""

    def planned(
        self, fork_server: ForkServer, name: str, form: BundleForm, memory: PlanMemory, scratch: Path
    ) -> PlannedParts:
        """Plan it in a child. ``name`` is an identifier of C. Raises BadInput."""

    def chosen(self, parts: PlannedParts) -> Mapping[str, ChosenRecord]:
        """The record of each workload that has one, by workload id."""


@dataclass(frozen=True)
class ModelSource:
    """One entry of a model.

    Attributes:
        model: as imported.
        target: as typed.
        records: gives the schedules of functions that have been tuned.
        entry: one of its functions; None for the only one or ``main``.
        is_foreign: whether it came from a caller of a service, so that its TIR functions must only compute.
    """

    model: ImportedModel
    target: str
    records: Records
    entry: str | None = None
    needs_schedules: bool = False
    is_foreign: bool = False

    @property
    def framework(self) -> str:
        """What wrote the model."""
        return self.model.framework

    @property
    def notes(self) -> Sequence[str]:
        """Those of the import."""
        return self.model.notes

    @property
    def references(self) -> Sequence[ModelReference]:
        """What the framework computed."""
        return self.model.references

    def planned(
        self, fork_server: ForkServer, name: str, form: BundleForm, memory: PlanMemory, scratch: Path
    ) -> PlannedParts:
        """Plan the entry."""
        if form == "cuda" and not self.target:
            fix = 'Name a GPU, such as nvidia-a100, or {"kind": "cuda", "arch": "sm_80"}.'
            raise BadInput("target", "a model is compiled for a GPU, and none is named.", fix)
        order = _order(self.target, scratch)
        with passed_weights(self.model) as (given, names):
            whole = order.model_copy(update={"module_json": self.model.module_json, "weights": names})
            asked = StaticPlanOrder(
                model=whole,
                entry=self.entry,
                name=name,
                has_vectors=bool(self.model.references),
                max_operations=MAX_REFERENCE_OPERATIONS,
                is_linked=form in COMPILED,
                is_cuda=form == "cuda",
                is_foreign=self.is_foreign,
            )
            descriptors = (given, memory.placed, memory.vectors)
            with compiling(fork_server, PLAN, asked, folder=Path(order.folder), descriptors=descriptors) as child:
                return exchange(child, PlannedParts, "planning", has_bytes=False)[0]

    def chosen(self, parts: PlannedParts) -> Mapping[str, ChosenRecord]:
        """The best record of each function."""
        return self.records(parts.tasks, parts.target, parts.code_generator)


@dataclass(frozen=True)
class RecordFunction:
    """A function with the record whose schedule it gets."""

    workload: Workload
    record: ChosenRecord


@dataclass(frozen=True)
class FunctionsSource:
    """Functions of records, each an entry of its own.

    Attributes:
        functions: at least one, at most ``MAX_FUNCTIONS``, of different workloads.
        target: what they are compiled for, canonical or as typed.
        needs_schedules: whether the target is that of the records, to which their schedules apply.
    """

    functions: tuple[RecordFunction, ...]
    target: Target | str
    needs_schedules: bool = False
    notes: tuple[str, ...] = ()
    framework: str = "tvm"
    references: tuple[ModelReference, ...] = ()

    def planned(
        self, fork_server: ForkServer, name: str, form: BundleForm, memory: PlanMemory, scratch: Path
    ) -> PlannedParts:
        """Plan the functions, and compute their test vectors in another child: what runs them writes no plan."""
        self._require_distinct()
        named = zip(unique_names([each.workload.name for each in self.functions]), self.functions, strict=True)
        order = FunctionsPlanOrder(
            functions=tuple(NamedFunction(name=each, workload=function.workload) for each, function in named),
            target=self.target,
            host_cores=usable_physical_cores(),
            name=name,
            max_operations=MAX_REFERENCE_OPERATIONS,
            is_linked=form in COMPILED,
            is_cuda=form == "cuda",
        )
        with compiling(fork_server, PLAN_FUNCTIONS, order, folder=scratch) as child:
            parts = exchange(child, PlannedParts, "planning", has_bytes=False)[0]
        descriptors = (memory.vectors,)
        with compiling(fork_server, WRITE_VECTORS, order, folder=scratch, descriptors=descriptors) as child:
            counts = exchange(child, VectorCounts, "computing test vectors of", has_bytes=False)[0].counts
        entries = tuple(
            each.model_copy(update={"vectors": count}) for each, count in zip(parts.entries, counts, strict=True)
        )
        return parts.model_copy(update={"entries": entries})

    def chosen(self, parts: PlannedParts) -> Mapping[str, ChosenRecord]:  # noqa: ARG002 - they are given
        """The given records."""
        return {each.workload.workload_id: each.record for each in self.functions}

    def _require_distinct(self) -> None:
        if not 0 < len(self.functions) <= MAX_FUNCTIONS:
            problem = f"{len(self.functions)} functions are given."
            raise BadInput("source", problem, f"Give from 1 to {MAX_FUNCTIONS} records.")
        seen: dict[str, str] = {}
        for each in self.functions:
            other = seen.setdefault(each.workload.workload_id, each.record.record_id)
            if other != each.record.record_id:
                problem = f"records {other} and {each.record.record_id} are of the same function."
                raise BadInput("source", problem, "Give one of them.")


def unique_names(names: Sequence[str]) -> list[str]:
    """Identifiers of C, made of names; a number tells equal ones apart."""
    found = ["main"]  # TVM defines a function of that name in each module
    for name in names:
        plain = identifier(name)[:100]
        same = (plain if number == 1 else f"{plain}_{number}" for number in range(1, len(names) + 2))
        found.append(next(each for each in same if each not in found))
    return found[1:]


def identifier(name: str) -> str:
    """A part of an identifier of C, made of a name."""
    plain = "".join(each if each.isascii() and each.isalnum() else "_" for each in name.lower())
    return "_".join(part for part in plain.split("_") if part) or "unnamed"


def _order(target: str, folder: Path) -> PrepareOrder:
    own = own_folder(folder, "plan")
    return PrepareOrder(module_json="", weights={}, target=target, host_cores=usable_physical_cores(), folder=str(own))
