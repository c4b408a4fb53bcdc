"""Compiles a model in confined children. Does not import TVM."""

import functools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tunefarm.frontend.model_import import ImportedModel
from tunefarm.frontend.random_inputs import INPUT_SETS
from tunefarm.model.builders import FunctionBuilders, own_folder
from tunefarm.model.child_call import compiling, exchange
from tunefarm.model.function_orders import ChosenRecord, Orders, function_orders, functions_of, passed_weights
from tunefarm.model.messages import (
    LINK,
    PREPARE,
    Caches,
    FunctionBuilt,
    FunctionOrder,
    ModelCompared,
    ObjectsOrder,
    PreparedParts,
    PreparedTask,
    PrepareOrder,
)
from tunefarm.model.model_folder import (
    LIBRARY_NAME,
    PROGRAM_NAME,
    WEIGHTS_NAME,
    external_functions,
    file_digest,
    kernels_of,
    require_program,
)
from tunefarm.model.model_run import Reference, run_model, write_outputs
from tunefarm.model.model_writing import NewFile, model_manifest, new_file, staged, write_manifest, write_model
from tunefarm.model.race.library_race import LibraryChoice, LibraryRace
from tunefarm.model.race.plan_folder import PlanFolders, RaceWeights, race_weights
from tunefarm.model.race.race_result import RaceResult
from tunefarm.model.race.shipped_plan import BuiltObject, Shipped, own_kernels
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.host_cores import usable_physical_cores
from tunefarm_schemas.kernel_library.check import require_kernel
from tunefarm_schemas.tuning.model import (
    ModelFunction,
    ModelManifest,
    ModelVerification,
    VerificationReference,
)
from tunefarm_schemas.tuning.target import Target
from tunefarm_workers.builder.sealed_library import sealed

MAX_REFERENCE_OPERATIONS: Final = 20e9
"""Beyond so many floating-point operations, the unscheduled build would run for tens of seconds."""
_NO_CALLS: Final = (
    "Replace operators whose kernels call TVM's runtime, such as those of relax.op.vision. Call your own function from "
    "Relax, and name the file that registers it: --functions FILE.py."
)

Records = Callable[[Sequence[PreparedTask], Target, str], Mapping[str, ChosenRecord]]
"""Finds the best record of each workload that has one, by workload id. Takes the code generator after the target."""


@dataclass(frozen=True)
class CompilationStage:
    """A stage that ended, and how long it took in seconds."""

    name: str
    took_s: float


@dataclass(frozen=True)
class Compilation:
    """The result: what was written to ``folder``, and how.

    Attributes:
        manifest: of the model.
        stages: in order.
        problems: why functions did not get their schedule, by function.
        size_bytes: of all files.
        latency_s: median of some calls on this host; None if it was not run.
        notes: what a user should know.
        race: which parts libraries run, and why; None if they were not asked for.
        is_quantized: whether it rounds to 8-bit integers.
    """

    folder: Path
    manifest: ModelManifest
    stages: tuple[CompilationStage, ...]
    problems: Mapping[str, str]
    size_bytes: int
    latency_s: float | None
    notes: tuple[str, ...]
    race: RaceResult | None = None
    is_quantized: bool = False


class ModelCompiler:
    """Compiles one model; ``compile`` runs its stages. Not for several threads."""

    def __init__(
        self,
        fork_server: ForkServer,
        folder: Path,
        *,
        records: Records = lambda _tasks, _target, _generator: {},
        functions_file: Path | None = None,
        is_verified: bool = True,
        libraries: LibraryChoice | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``functions_file`` registers the external functions that the model calls. ``say`` gets each stage.

        Parts of the model may be run by ``libraries``.
        """
        self._fork_server = fork_server
        self._folder = folder.resolve()
        self._records = records
        self._functions_file = functions_file
        self._is_verified = is_verified
        self._libraries = libraries
        self._race: RaceResult | None = None
        self._say = say
        self._stages: list[CompilationStage] = []
        self._problems: dict[str, str] = {}

    def compile(self, model: ImportedModel, target: str, name: str) -> Compilation:
        """Prepare, schedule, build, write and verify. ``target`` is as typed. After an error the folder is unchanged.

        Raises:
            BadInput: the model or the target cannot be compiled, or the folder cannot be written.
        """
        with ExitStack() as stack:
            scratch = Path(tempfile.mkdtemp(prefix="tunefarm-model-"))
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            scratch.chmod(0o711)
            staging = stack.enter_context(staged(self._folder))
            weights = stack.enter_context(new_file(staging))
            race = None if self._libraries is None else stack.enter_context(race_weights(staging))
            with self._stage("prepare"):
                parts, program = self._prepared(model, target, scratch, weights, race, stack)
            with self._stage(f"build {len(parts.tasks)} functions"):
                orders = self._orders(parts, scratch)
                library, built, objects = self._library(orders, scratch)
            external = self._external(program, library)
            manifest = model_manifest(
                model, parts, name, library, program, file_digest(weights.descriptor), built, external
            )
            write_model(staging, manifest, library, program, weights.path)
            reference = functools.cache(functools.partial(self._reference, stack, model, orders, parts, scratch))
            if race is not None and self._libraries is not None:
                with self._stage("race"):
                    folders = PlanFolders(self._child, staging, manifest, race)
                    result = self._raced(folders, parts, library, external, reference() if self._is_verified else None)
                    self._race = result
                    if result.winner.plan.libraries:
                        shipped = Shipped(
                            functools.partial(self._linked, own=own_folder(scratch, "link-shipped")), objects, library
                        )
                        manifest, library = shipped.write(folders, result.winner.plan)
            manifest, latency_s = self._verified(staging, manifest, library, reference)
        compilation = self._compilation(manifest, latency_s, (*model.notes, *parts.notes))
        return replace(compilation, is_quantized=parts.is_quantized)

    def _external(self, program: bytes, library: bytes) -> tuple[str, ...]:
        """The external functions that a program calls. Raises BadInput if kernels do, or no file registers them."""
        require_kernel(library, "model", fix=_NO_CALLS)
        external = external_functions(program, kernels_of(library))
        if external and self._functions_file is None:
            problem = f"the model calls {', '.join(external)}, which no module defines."
            raise BadInput("functions", problem, "Name the file that registers them: --functions FILE.py.")
        require_program(library, program, external)
        return external

    def _compilation(self, manifest: ModelManifest, latency_s: float | None, notes: tuple[str, ...]) -> Compilation:
        files = (LIBRARY_NAME, PROGRAM_NAME, WEIGHTS_NAME, *(region.file for region in manifest.regions))
        size_bytes = sum((self._folder / each).stat().st_size for each in files)
        stages = tuple(self._stages)
        return Compilation(self._folder, manifest, stages, self._problems, size_bytes, latency_s, notes, self._race)

    def _prepared(
        self,
        model: ImportedModel,
        target: str,
        scratch: Path,
        weights: NewFile,
        race: RaceWeights | None,
        stack: ExitStack,
    ) -> tuple[PreparedParts, bytes]:
        """The parts of the model, and its bytecode. For a race, the child lives until ``stack`` ends."""
        own = own_folder(scratch, "prepare")
        with passed_weights(model) as (given, names):
            order = PrepareOrder(
                module_json=model.module_json,
                weights=names,
                target=target,
                host_cores=usable_physical_cores(),
                folder=str(own),
                has_plans=race is not None,
            )
            files = (given, weights.descriptor, *(() if race is None else race.descriptors))
            prepared = compiling(self._fork_server, PREPARE, order, folder=own, descriptors=files)
            if race is not None:
                self._child = stack.enter_context(prepared)
                return exchange(self._child, PreparedParts, "preparing")
            with prepared as child:
                return exchange(child, PreparedParts, "preparing")

    def _orders(self, parts: PreparedParts, scratch: Path) -> Orders:
        """What to compile, with the task that each order is of; the largest first."""
        records = self._records(parts.tasks, parts.target, parts.code_generator)
        tasks = sorted(parts.tasks, key=lambda each: -each.workload.floating_point_operations)
        return function_orders(tasks, parts.rest_json, parts.target, records, scratch)

    def _library(self, orders: Orders, scratch: Path) -> tuple[bytes, list[ModelFunction], list[BuiltObject]]:
        """The library of all functions, how each task's functions were scheduled, and the objects that it is of."""
        builders = FunctionBuilders(self._fork_server, own_folder(scratch, "objects"), self._say)
        return self._linked_functions(orders, builders.run([order for _, order in orders]), own_folder(scratch, "link"))

    def _linked_functions(
        self, orders: Orders, results: Sequence[tuple[FunctionBuilt, Path]], own: Path
    ) -> tuple[bytes, list[ModelFunction], list[BuiltObject]]:
        """The same from compiled functions; ``own`` is an empty folder."""
        functions: list[ModelFunction] = []
        objects: list[BuiltObject] = []
        for (task, order), (built, path) in zip(orders, results, strict=True):
            objects.append(BuiltObject(str(path), () if task is None else task.functions))
            made = functions_of(task, order, built)
            functions += made
            if built.problem:
                self._problems |= dict.fromkeys((each.name for each in made), built.problem)
        return self._linked([each.path for each in objects], own), functions, objects

    def _raced(
        self,
        folders: PlanFolders,
        parts: PreparedParts,
        library: bytes,
        external: Sequence[str],
        reference: Reference | None,
    ) -> RaceResult:
        assert self._libraries is not None
        with ExitStack() as stack:
            if reference is None:
                own = sealed(library)
                stack.callback(os.close, own)
                reference = Reference("library", own, "our kernels'", is_quantized=parts.is_quantized)
            check = functools.partial(self._wrong_results, folders.folder, library, external, reference)
            race = LibraryRace(
                self._fork_server,
                folders,
                parts.units,
                self._libraries,
                library=library,
                callees=external,
                functions_file=self._functions_file,
                check=check,
                say=self._say,
            )
            return race.run()

    def _linked(self, objects: Sequence[str], own: Path) -> bytes:
        readable = tuple(sorted({str(Path(each).parent) for each in objects}))
        order = ObjectsOrder(objects=tuple(objects), folder=str(own))
        confinement = Confinement.compiler(str(own), readable=readable)
        with compiling(self._fork_server, LINK, order, folder=own, confinement=confinement) as child:
            return exchange(child, FunctionBuilt, "linking")[1]

    def _verified(
        self, staging: Path, manifest: ModelManifest, library: bytes, referenced: Callable[[], Reference | None]
    ) -> tuple[ModelManifest, float | None]:
        """Compare the model with its reference, if it has one, and time it."""
        if not self._is_verified:
            return manifest, None
        with self._stage("verify"):
            reference = referenced()
            if reference is not None:
                reference = replace(reference, folder=own_kernels(staging, manifest))
            return self._compared(staging, manifest, library, reference)

    def _wrong_results(
        self, own: Path, library: bytes, external: Sequence[str], reference: Reference, folder: Path
    ) -> str:
        """What is wrong with the results of the plan in ``folder``, if anything is; ``own`` has our kernels alone."""
        reference = replace(reference, folder=own)
        try:
            compared = run_model(
                self._fork_server, folder, library, reference, external, self._functions_file, timed=()
            )
        except BadInput as error:
            return str(error)
        return _difference(compared.worst_error, reference)

    def _compared(
        self,
        staging: Path,
        manifest: ModelManifest,
        library: bytes,
        reference: Reference | None,
        *,
        timed: tuple[Caches, ...] = ("warm",),
    ) -> tuple[ModelManifest, float | None]:
        """The manifest with what the model was compared with, and the seconds of one run if it is ``timed``."""
        functions = manifest.callees, self._functions_file
        compared = run_model(self._fork_server, staging, library, reference, *functions, timed=timed)
        if reference is None or compared.worst_error is None:
            return manifest, compared.latency_s
        if problem := _difference(compared.worst_error, reference):
            raise BadInput("model", problem, "Do not use it; report this with the model.")
        verified = ModelVerification(
            reference=_referenced(reference, compared),
            input_sets=len(reference.entries) or INPUT_SETS,
            worst_error=compared.worst_error,
        )
        manifest = manifest.model_copy(update={"verified": verified})
        write_manifest(staging, manifest)
        return manifest, compared.latency_s

    def _reference(
        self,
        stack: ExitStack,
        model: ImportedModel,
        orders: Orders,
        parts: PreparedParts,
        scratch: Path,
    ) -> Reference | None:
        """What the framework computed, else an unscheduled build if that runs quickly. Closed when ``stack`` ends."""
        if model.references:
            outputs = os.memfd_create("outputs", os.MFD_CLOEXEC)
            stack.callback(os.close, outputs)
            return replace(write_outputs(model.references, outputs), is_quantized=parts.is_quantized)
        operations = sum(t.workload.floating_point_operations * sum(t.calls.values()) for t in parts.tasks)
        if operations > MAX_REFERENCE_OPERATIONS:
            return None
        plain = [order.model_copy(update={"trace": None, "is_scheduled": False}) for _, order in orders]
        held = sealed(self._unscheduled(plain, own_folder(scratch, "reference")))
        stack.callback(os.close, held)
        return Reference("library", held, "the unscheduled build's", is_quantized=parts.is_quantized)

    def _unscheduled(self, orders: Sequence[FunctionOrder], own: Path) -> bytes:
        built = FunctionBuilders(self._fork_server, own_folder(own, "objects"), lambda _: None).run(orders)
        return self._linked([str(path) for _, path in built], own_folder(own, "link"))

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self._say(name)
        began_s = time.monotonic()
        yield
        self._stages.append(CompilationStage(name, time.monotonic() - began_s))


def _referenced(reference: Reference, compared: ModelCompared) -> VerificationReference:
    if compared.by_function:
        return "unscheduled functions"
    return "framework" if reference.against == "outputs" else "unscheduled"


def _difference(worst_error: float | None, reference: Reference) -> str:
    """How far results are from those of the reference, if they are further than they may be."""
    if worst_error is None or worst_error <= 1.0:
        return ""
    return f"its results differ from {reference.named}: {worst_error:.3g} times what is allowed."
