"""Builds a bundle: plans it, schedules and compiles its kernels, and writes the folder."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tunefarm.artifact.artifact_folder import MANIFEST_NAME
from tunefarm.bundle.bill_of_materials import SBOM, BundleMaterials, bill_of_materials
from tunefarm.bundle.bundle_contents import entry_vectors, plan_files, runtime_files, used_records
from tunefarm.bundle.bundle_folder import WEIGHTS, files_in, manifest_text, new_bundle, put_files
from tunefarm.bundle.bundle_source import BundleSource, ModelSource, PlanMemory, identifier
from tunefarm.bundle.cuda.nvcc import CompileCuda, Nvcc
from tunefarm.bundle.form_files import FormCompiler, compiler_of, form_files
from tunefarm.bundle.link.linking import Link, linked
from tunefarm.bundle.messages import PlannedParts, kernel_prefix
from tunefarm.bundle.timing.bundle_timing import bundle_latency
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.model.builders import FunctionBuilders, own_folder
from tunefarm.model.compilation import Records
from tunefarm.model.function_orders import ChosenRecord, function_orders, functions_of
from tunefarm.model.messages import FLOAT32_TOLERANCE, FunctionOrder
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.host_cores import usable_physical_cores
from tunefarm_schemas.tuning.bundle import BUNDLE_FORMAT, BundleForm, BundleManifest
from tunefarm_schemas.tuning.model import ModelFunction

_SUFFIXES: Final = {"c": "c", "cuda": "json"}
"""File suffixes of what the build child returns for a function, in forms without object files."""


@dataclass(frozen=True)
class BuiltBundle:
    """A bundle in ``folder``. ``problems`` say why functions did not get their schedule, by function."""

    folder: Path
    manifest: BundleManifest
    problems: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class BundleBuilder:
    """Builds bundles.

    Attributes:
        fork_server: whose children plan, compile and run them.
        records: gives the schedules of functions of models that have been tuned.
        say: gets each stage.
        is_timed: whether shared libraries that run on this host are timed. Their manifests then differ by the times.
        link: links libraries and archives.
        compile_cuda: compiles kernels for GPUs.
    """

    fork_server: ForkServer
    records: Records = lambda _tasks, _target, _generator: {}
    say: Callable[[str], None] = lambda _: None
    is_timed: bool = False
    link: Link = linked
    compile_cuda: CompileCuda = Nvcc.compiled

    def build(
        self,
        model: ImportedModel,
        target: str,
        name: str,
        form: BundleForm,
        folder: Path,
        entry: str | None = None,
        cc: str = "",
        device_class_id: str | None = None,
    ) -> BuiltBundle:
        """Build one entry of ``model``; ``target`` is as typed. See ``build_source``."""
        source = ModelSource(model, target, self.records, entry)
        return self.build_source(source, name, form, folder, cc, device_class_id)

    def build_source(
        self,
        source: BundleSource,
        name: str,
        form: BundleForm,
        folder: Path,
        cc: str = "",
        device_class_id: str | None = None,
    ) -> BuiltBundle:
        """Build a model, or the functions of records. An error leaves no folder behind.

        ``cc`` is the C compiler that links libraries and archives (``toolchain_for``). ``device_class_id`` is that of
        the only devices that a library or an archive is for.

        Raises:
            BadInput: a model needs TVM's virtual machine, or it, a function or the target cannot be compiled or linked,
                or ``folder`` has files.
        """
        name = f"model_{identifier(name)}"
        with ExitStack() as stack:
            scratch = Path(tempfile.mkdtemp(prefix="tunefarm-bundle-"))
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            scratch.chmod(0o711)
            staging = stack.enter_context(new_bundle(folder.resolve()))
            memory = PlanMemory(stack.enter_context(_memory("placed")), stack.enter_context(_memory("vectors")))
            self.say("planning")
            parts = source.planned(self.fork_server, name, form, memory, scratch)
            compiler = compiler_of(form, parts.target, cc)
            records = source.chosen(parts)
            functions, problems, kernels, features = self._kernels(parts, name, form, records, scratch)
            parts = parts.model_copy(update={"cpu_features": tuple(sorted({*parts.cpu_features, *features}))})
            if problems and source.needs_schedules:
                raise _without_schedule(problems)
            entries = entry_vectors(parts, source.references, memory.vectors)
            for each in entries:
                put_files(staging, dict(each.files()))
            sources = runtime_files() | plan_files(parts, entries, is_cuda=form == "cuda")
            if compiler is not None:
                self.say("compiling" if form == "cuda" else "linking")
            made = form_files(form, compiler, kernels, sources, parts, scratch, self.link, self.compile_cuda)
            put_files(staging, made.files)
            requires = made.requires
            if requires is not None:
                requires = requires.model_copy(update={"device_class_id": device_class_id})
            with open(memory.placed, "rb", closefd=False) as placed, (staging / WEIGHTS).open("xb") as file:
                shutil.copyfileobj(placed, file)
            materials = _materials(source.framework, parts, name, compiler)
            put_files(staging, {SBOM: bill_of_materials(materials, files_in(staging))})
            first, *others = [each.described() for each in entries]
            manifest = BundleManifest(
                format=BUNDLE_FORMAT,
                name=name,
                form=form,
                target=parts.target.canonical,
                num_cores=parts.target.num_cores,
                framework=source.framework,
                code_generator=parts.code_generator,
                tunefarm_version=materials.tunefarm_version,
                tvm_version=parts.tvm_version,
                entry=first.entry,
                functions=functions,
                weights_bytes=parts.weights_bytes,
                arena_bytes=first.arena_bytes,
                vectors=first.vectors,
                others=tuple(others),
                tolerance=FLOAT32_TOLERANCE,
                files=files_in(staging),
                requires=requires,
                requires_cuda=made.requires_cuda,
                records=used_records(functions, records),
                sbom=SBOM,
            )
            if self.is_timed and _runs_here(parts, manifest):
                self.say("timing")
                latency = bundle_latency(self.fork_server, staging, manifest)
                manifest = manifest.model_copy(update={"latency": latency})
            put_files(staging, {MANIFEST_NAME: manifest_text(manifest).encode()})
        return BuiltBundle(folder, manifest, problems, (*source.notes, *parts.notes))

    def _kernels(
        self, parts: PlannedParts, name: str, form: BundleForm, records: Mapping[str, ChosenRecord], scratch: Path
    ) -> tuple[tuple[ModelFunction, ...], dict[str, str], dict[str, bytes], set[str]]:
        """How each function was scheduled, what went wrong with that, the files of the kernels, and what they need."""
        orders = function_orders(parts.tasks, parts.rest_json, parts.target, records, scratch)
        if form == "c":
            _require_types_of_c(orders)
        orders = [(task, _of_bundle(order, name, number, form)) for number, (task, order) in enumerate(orders)]
        builders = FunctionBuilders(self.fork_server, own_folder(scratch, "kernels"), self.say)
        results = builders.run([order for _, order in orders])
        functions: list[ModelFunction] = []
        problems: dict[str, str] = {}
        files: dict[str, bytes] = {}
        features: set[str] = set()
        for number, ((task, order), (built, path)) in enumerate(zip(orders, results, strict=True)):
            files[f"kernels/kernel{number}.{_SUFFIXES.get(form, 'o')}"] = path.read_bytes()
            made = functions_of(task, order, built)
            functions += made
            features.update(built.cpu_features)
            if built.problem:
                problems |= dict.fromkeys((each.name for each in made), built.problem)
        return tuple(functions), problems, files, features


def _of_bundle(order: FunctionOrder, name: str, number: int, form: BundleForm) -> FunctionOrder:
    """The order with names that no other bundle of a program has."""
    names = tuple(f"{kernel_prefix(name)}{each}" for each in order.names)
    unit = f"{kernel_prefix(name)}kernel{number}" if form == "c" else None
    return order.model_copy(update={"names": names, "unit": unit})


def _require_types_of_c(orders: Iterable[tuple[object, FunctionOrder]]) -> None:
    """Refuse floats of 16 bits: TVM would write the type of OpenCL for them."""
    for _, order in orders:
        if '"float16"' in order.module_json:
            names = ", ".join(order.names) or "a function of the model"
            problem = f"{names} computes with float16, for which C11 has no type."
            raise BadInput("form", problem, "Use the form library, or a model of float32.")


def _without_schedule(problems: Mapping[str, str]) -> BadInput:
    name, problem = next(iter(problems.items()))
    fix = "Tune its function again with this version, or name a target: its functions then get other schedules."
    return BadInput("source", f"the schedule of {name} does not apply: {problem.rstrip('.!')}.", fix)


def _runs_here(parts: PlannedParts, manifest: BundleManifest) -> bool:
    """Whether it is a library of one entry that this process can load, for no more threads than this host has cores."""
    if manifest.form != "library" or manifest.others or manifest.requires is None or manifest.requires.libc == "musl":
        return False
    return parts.reason_it_cannot_run_here is None and manifest.num_cores <= usable_physical_cores()


def _materials(framework: str, parts: PlannedParts, name: str, toolchain: FormCompiler) -> BundleMaterials:
    return BundleMaterials(
        name=name,
        tunefarm_version=version("tunefarm"),
        tvm_version=parts.tvm_version,
        code_generator=parts.code_generator,
        framework=framework,
        toolchain=toolchain,
    )


@contextmanager
def _memory(name: str) -> Iterator[int]:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
