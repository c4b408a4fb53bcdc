"""Builds the bundle of a model: plans it, schedules and compiles its kernels, and writes the folder."""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tunefarm.artifact.artifact_folder import MANIFEST_NAME
from tunefarm.bundle.bill_of_materials import SBOM, BundleMaterials, bill_of_materials
from tunefarm.bundle.bundle_folder import RUNTIME, WEIGHTS, files_in, new_bundle, put_files
from tunefarm.bundle.link.compiled_files import COMPILED, compiled_files
from tunefarm.bundle.link.toolchain import BundleToolchain, toolchain_for
from tunefarm.bundle.messages import PLAN, PlannedParts, StaticPlanOrder
from tunefarm.bundle.timing.bundle_timing import bundle_latency
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.frontend.relax_model import ModelReference
from tunefarm.frontend.weights_file import Array, read_weights
from tunefarm.model.builders import FunctionBuilders, own_folder
from tunefarm.model.child_call import compiling, exchange
from tunefarm.model.compilation import MAX_REFERENCE_OPERATIONS, Records
from tunefarm.model.function_orders import ChosenRecord, function_orders, functions_of, passed_weights
from tunefarm.model.messages import (
    FLOAT32_TOLERANCE,
    PrepareOrder,
    input_name,
    output_name,
)
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.host_cores import usable_physical_cores
from tunefarm_schemas.tuning.bundle import (
    BUNDLE_FORMAT,
    BundleForm,
    BundleManifest,
    BundleRecord,
    BundleVector,
)
from tunefarm_schemas.tuning.model import ModelEntry, ModelFunction


@dataclass(frozen=True)
class BuiltBundle:
    """A bundle in ``folder``. ``problems`` say why functions did not get their schedule, by function."""

    folder: Path
    manifest: BundleManifest
    problems: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class BundleBuilder:
    """Builds bundles of models.

    Attributes:
        zygote: whose children plan, compile and run them.
        records: gives the schedules of functions that have been tuned.
        say: gets each stage.
        is_timed: whether shared libraries that run on this host are timed. Their manifests then differ by the times.
    """

    zygote: ForkServer
    records: Records = lambda _tasks, _target, _generator: {}
    say: Callable[[str], None] = lambda _: None
    is_timed: bool = False

    def build(
        self,
        model: ImportedModel,
        target: str,
        name: str,
        form: BundleForm,
        folder: Path,
        entry: str | None = None,
        cc: str = "",
    ) -> BuiltBundle:
        """Build one entry of ``model``; ``target`` is as typed. An error leaves no folder behind.

        ``cc`` is the C compiler that links libraries and archives (``toolchain_for``).

        Raises:
            BadInput: the model needs TVM's virtual machine, or it or the target cannot be compiled or linked, or
                ``folder`` has files.
        """
        with ExitStack() as stack:
            scratch = Path(tempfile.mkdtemp(prefix="tunefarm-bundle-"))
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            scratch.chmod(0o711)
            staging = stack.enter_context(new_bundle(folder.resolve()))
            placed, own = stack.enter_context(_memory("placed")), stack.enter_context(_memory("vectors"))
            self.say("planning")
            parts = self._planned(model, _order(target, scratch), _identifier(name), entry, form, placed, own)
            toolchain = toolchain_for(parts.target, cc) if form in COMPILED else None
            records = self.records(parts.tasks, parts.target, parts.code_generator)
            functions, problems, kernels = self._kernels(parts, form, records, scratch)
            references = _references(model, parts, own)
            vectors = tuple(_vector(number, each) for number, each in enumerate(references))
            put_files(staging, dict(_tensor_files(references)))
            sources = _runtime() | _sources(parts, _identifier(name), len(vectors))
            requires = None
            if toolchain is None:
                put_files(staging, kernels | sources)
            else:
                self.say("linking")
                files, requires = compiled_files(toolchain, form, kernels | sources, parts.cpu_features, scratch)
                put_files(staging, files)
            with open(placed, "rb", closefd=False) as memory, (staging / WEIGHTS).open("xb") as file:
                shutil.copyfileobj(memory, file)
            materials = _materials(model, parts, _identifier(name), toolchain)
            put_files(staging, {SBOM: bill_of_materials(materials, files_in(staging))})
            manifest = BundleManifest(
                format=BUNDLE_FORMAT,
                name=_identifier(name),
                form=form,
                target=parts.target.canonical,
                num_cores=parts.target.num_cores,
                framework=model.framework,
                code_generator=parts.code_generator,
                tunefarm_version=materials.tunefarm_version,
                tvm_version=parts.tvm_version,
                entry=parts.entry,
                functions=functions,
                weights_bytes=parts.weights_bytes,
                arena_bytes=parts.arena_bytes,
                vectors=vectors,
                tolerance=FLOAT32_TOLERANCE,
                files=files_in(staging),
                requires=requires,
                records=_used(functions, records),
                sbom=SBOM,
            )
            if self.is_timed and _runs_here(parts, manifest):
                self.say("timing")
                latency = bundle_latency(self.zygote, staging, manifest)
                manifest = manifest.model_copy(update={"latency": latency})
            put_files(staging, {MANIFEST_NAME: f"{manifest.model_dump_json(indent=2)}\n".encode()})
        return BuiltBundle(folder, manifest, problems, (*model.notes, *parts.notes))

    def _planned(
        self,
        model: ImportedModel,
        order: PrepareOrder,
        name: str,
        entry: str | None,
        form: BundleForm,
        placed: int,
        own: int,
    ) -> PlannedParts:
        with passed_weights(model) as (given, names):
            whole = order.model_copy(update={"module_json": model.module_json, "weights": names})
            asked = StaticPlanOrder(
                model=whole,
                entry=entry,
                name=name,
                has_vectors=bool(model.references),
                max_operations=MAX_REFERENCE_OPERATIONS,
                is_linked=form in COMPILED,
            )
            descriptors = (given, placed, own)
            with compiling(self.zygote, PLAN, asked, folder=Path(order.folder), descriptors=descriptors) as child:
                return exchange(child, PlannedParts, "planning", has_bytes=False)[0]

    def _kernels(
        self, parts: PlannedParts, form: BundleForm, records: Mapping[str, ChosenRecord], scratch: Path
    ) -> tuple[tuple[ModelFunction, ...], dict[str, str], dict[str, bytes]]:
        """How each function was scheduled, what went wrong with that, and the files of the kernels."""
        orders = function_orders(parts.tasks, parts.rest_json, parts.target, records, scratch)
        if form == "c":
            orders = [
                (task, order.model_copy(update={"unit": "rest" if task is None else f"kernel{number}"}))
                for number, (task, order) in enumerate(orders)
            ]
        builders = FunctionBuilders(self.zygote, own_folder(scratch, "kernels"), self.say)
        results = builders.run([order for _, order in orders])
        functions: list[ModelFunction] = []
        problems: dict[str, str] = {}
        files: dict[str, bytes] = {}
        for number, ((task, order), (built, path)) in enumerate(zip(orders, results, strict=True)):
            files[f"kernels/kernel{number}.{'c' if form == 'c' else 'o'}"] = path.read_bytes()
            made = functions_of(task, order, built)
            functions += made
            if built.problem:
                problems |= dict.fromkeys((each.name for each in made), built.problem)
        return tuple(functions), problems, files


def _runs_here(parts: PlannedParts, manifest: BundleManifest) -> bool:
    """Whether it is a library that this process can load, for no more threads than this host has cores."""
    if manifest.form != "library" or manifest.requires is None or manifest.requires.libc == "musl":
        return False
    return parts.reason_it_cannot_run_here is None and manifest.num_cores <= usable_physical_cores()


def _used(functions: Sequence[ModelFunction], records: Mapping[str, ChosenRecord]) -> tuple[BundleRecord, ...]:
    """The records whose schedule a function got, in order of their ids."""
    ids = {each.record_id for each in functions}
    found = {each.record_id: each.measured for each in records.values() if each.record_id in ids}
    return tuple(measured for _, measured in sorted(found.items()) if measured is not None)


def _materials(
    model: ImportedModel, parts: PlannedParts, name: str, toolchain: BundleToolchain | None
) -> BundleMaterials:
    return BundleMaterials(
        name=name,
        tunefarm_version=version("tunefarm"),
        tvm_version=parts.tvm_version,
        code_generator=parts.code_generator,
        framework=model.framework,
        toolchain=toolchain,
    )


def _order(target: str, scratch: Path) -> PrepareOrder:
    return PrepareOrder(
        module_json="",
        weights={},
        target=target,
        host_cores=usable_physical_cores(),
        folder=str(own_folder(scratch, "plan")),
    )


def _identifier(name: str) -> str:
    """A name that C permits, made of another one."""
    return f"model_{re.sub(r'[^a-z0-9]+', '_', name.lower()).strip('_') or 'unnamed'}"


@contextmanager
def _memory(name: str) -> Iterator[int]:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _references(model: ImportedModel, parts: PlannedParts, own: int) -> list[ModelReference]:
    """What the framework computed for the entry, or else the planning child."""
    given = [each for each in model.references if each.entry == parts.entry.name]
    if given or not parts.vectors:
        return given
    arrays = read_weights(own)
    return [_reference(parts.entry, arrays)]


def _reference(entry: ModelEntry, arrays: Mapping[str, Array]) -> ModelReference:
    inputs = tuple(arrays[input_name(0, at)] for at in range(len(entry.inputs)))
    return ModelReference(entry.name, inputs, tuple(arrays[output_name(0, at)] for at in range(len(entry.outputs))))


def _vector(number: int, reference: ModelReference) -> BundleVector:
    return BundleVector(
        inputs=tuple(f"vectors/{number}/input{at}.bin" for at in range(len(reference.inputs))),
        outputs=tuple(f"vectors/{number}/output{at}.bin" for at in range(len(reference.outputs))),
    )


def _tensor_files(references: Sequence[ModelReference]) -> Iterator[tuple[str, bytes]]:
    for number, each in enumerate(references):
        vector = _vector(number, each)
        names = (*vector.inputs, *vector.outputs)
        for name, array in zip(names, (*each.inputs, *each.outputs), strict=True):
            yield name, array.tobytes()


def _runtime() -> dict[str, bytes]:
    """The runtime's files by their paths in a bundle."""
    files = {path.name: path.read_bytes() for path in sorted(RUNTIME.iterdir()) if path.is_file()}
    return {name if name == "CMakeLists.txt" else f"runtime/{name}": content for name, content in files.items()}


def _sources(parts: PlannedParts, name: str, vectors: int) -> dict[str, bytes]:
    bundle = f"""\
#ifndef BUNDLE_H_
#define BUNDLE_H_
#include "model.h"
#define BUNDLE_MODEL {name}
#define BUNDLE_VECTORS {vectors}
#define BUNDLE_TOLERANCE {FLOAT32_TOLERANCE}
#endif
"""
    return {"model.c": parts.source.encode(), "model.h": parts.header.encode(), "bundle.h": bundle.encode()}
