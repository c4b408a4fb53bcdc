"""Plans of a model, and their folders of compiled files."""

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from tunefarm.model.child_call import exchange
from tunefarm.model.library.library import LIBRARIES
from tunefarm.model.model_folder import LIBRARY_NAME, WEIGHTS_NAME, file_digest
from tunefarm.model.model_writing import NewFile, new_file, write_program
from tunefarm.model.race.messages import Assignment, PlanOrder, PlanParts
from tunefarm_sandbox.channel.channel import ChannelClosed
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.model import EntryWeights, ModelManifest, ModelRegion

OURS: Final = "our kernels"
_SPINNING: Final = frozenset({"onnxruntime"})


@dataclass(frozen=True)
class LibraryPlan:
    """Which library runs each unit; ``spins`` says whether the threads of libraries wait by spinning."""

    assignment: Assignment
    spins: bool = False

    @property
    def libraries(self) -> tuple[str, ...]:
        """Those that it uses, in alphabetical order."""
        return tuple(sorted({library for library in self.assignment if library is not None}))

    @property
    def can_spin(self) -> bool:
        """Whether a library of the plan has the choice of how its threads wait."""
        return not _SPINNING.isdisjoint(self.libraries)

    @property
    def name(self) -> str:
        """Such as ``onnxruntime 40, our kernels 2 of 42 functions, spinning``."""
        counts = Counter(library or OURS for library in self.assignment)
        waiting = ", spinning" if self.spins and self.can_spin else ""
        if len(counts) <= 1:
            return f"{next(iter(counts), OURS)}{waiting}"
        shares = ", ".join(f"{library} {count}" for library, count in counts.most_common())
        return f"{shares} of {len(self.assignment)} functions{waiting}"


@dataclass(frozen=True)
class PlannedModel:
    """What a plan comes to.

    Attributes:
        parts: the answer of the child that cuts the model.
        program: the bytecode.
        regions: the ONNX model of each region.
    """

    parts: PlanParts
    program: bytes = field(repr=False)
    regions: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class RaceWeights:
    """Files that the child that cuts the model writes: the weights of all plans, and those of the final one."""

    every: NewFile
    final: NewFile

    @property
    def descriptors(self) -> tuple[int, int]:
        """Of both files."""
        return self.every.descriptor, self.final.descriptor


@contextmanager
def race_weights(folder: Path) -> Iterator[RaceWeights]:
    """New files in ``folder``, which are removed in the end unless they were renamed."""
    with new_file(folder) as every, new_file(folder) as final:
        yield RaceWeights(every, final)


class PlanFolders:
    """Makes folders of plans below ``folder``, which has the files of the plan of our kernels alone."""

    def __init__(self, child: Child, folder: Path, manifest: ModelManifest, weights: RaceWeights) -> None:
        """``child`` cuts the model. ``manifest`` is that of our kernels alone."""
        self._child = child
        self.folder = folder
        self.manifest = manifest
        self.weights = weights
        self._count = 0
        self._planned: dict[Assignment, PlannedModel] = {}

    @property
    def has_ended(self) -> bool:
        """Whether the child that cuts the model is gone."""
        return self._child.exit() is not None

    def planned(self, plan: LibraryPlan, *, by_unit: bool = False, is_final: bool = False) -> PlannedModel:
        """Cut the model. With ``by_unit`` each unit is a region of its own.

        Raises:
            BadInput: it cannot be cut so.
        """
        order = PlanOrder(assignment=plan.assignment, by_unit=by_unit, is_final=is_final)
        with suppress(ChannelClosed):  # it has ended, as the exchange tells
            self._child.channel.send(order.model_dump_json().encode())
        parts, program = exchange(self._child, PlanParts, "cutting")
        try:
            regions = tuple(self._child.channel.receive() for _ in parts.regions)
        except ChannelClosed as closed:
            raise BadInput("model", "the process that cuts it ended.", "Compile it again.") from closed
        planned = PlannedModel(parts, program, regions)
        if not (by_unit or is_final):
            self._planned[plan.assignment] = planned
        return planned

    def written(self, plan: LibraryPlan, planned: PlannedModel) -> Path:
        """A folder with the model of a plan, for a child to run."""
        folder = self.folder / f"plan-{self._count}"
        self._count += 1
        folder.mkdir()
        folder.chmod(0o755)
        _put_same(self.folder / LIBRARY_NAME, folder / LIBRARY_NAME)
        _put_same(self.weights.every.path, folder / WEIGHTS_NAME)
        write_program(folder, self.manifest_of(plan, planned, self._digest), planned.program, planned.regions)
        return folder

    def final(self, plan: LibraryPlan) -> tuple[PlannedModel, ModelManifest, Path]:
        """The model of a plan, its manifest and the file of its weights; nothing else is written.

        The file has the weights of this plan alone, or those of all plans if the child has ended since the race.

        Raises:
            BadInput: it cannot be cut, and was not before.
        """
        try:
            planned, weights = self.planned(plan, is_final=True), self.weights.final
        except BadInput:
            if plan.assignment not in self._planned:
                raise
            planned, weights = self._planned[plan.assignment], self.weights.every
        return planned, self.manifest_of(plan, planned, file_digest(weights.descriptor)), weights.path

    def manifest_of(self, plan: LibraryPlan, planned: PlannedModel, weights_digest: str) -> ModelManifest:
        """The manifest of our kernels alone, changed to that of a plan."""
        parts = planned.parts
        return self.manifest.model_copy(
            update={
                "entry_weights": _entry_weights(parts.entry_weights),
                "updated_inputs": parts.updated_inputs,
                "regions": _regions(plan, planned),
                "program": hashlib.sha256(planned.program).hexdigest(),
                "weights": weights_digest,
            }
        )

    @cached_property
    def _digest(self) -> str:
        return file_digest(self.weights.every.descriptor)


def _put_same(source: Path, path: Path) -> None:
    try:
        os.link(source, path)
    except OSError:  # a file system without links
        shutil.copyfile(source, path)


def _entry_weights(names: Mapping[str, Sequence[str]]) -> tuple[EntryWeights, ...]:
    return tuple(EntryWeights(entry=entry, weights=tuple(own)) for entry, own in names.items())


def _regions(plan: LibraryPlan, planned: PlannedModel) -> tuple[ModelRegion, ...]:
    return tuple(
        ModelRegion(
            name=region.name,
            library=region.library,
            requirement=LIBRARIES[region.library].requirement(),
            spins=plan.spins,
            file=f"region-{at}.onnx",
            digest=hashlib.sha256(content).hexdigest(),
            operators=region.operators,
        )
        for at, (region, content) in enumerate(zip(planned.parts.regions, planned.regions, strict=True))
    )
