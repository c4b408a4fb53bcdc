"""Compiles a model twice, with records and without a trial, and ships the build that is faster."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tunefarm.artifact.artifact_folder import MANIFEST_NAME
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.model.builders import FunctionBuilders, own_folder
from tunefarm.model.compilation import Compilation, ModelCompiler
from tunefarm.model.function_orders import Orders
from tunefarm.model.messages import FunctionBuilt, PreparedParts
from tunefarm.model.model_folder import LIBRARY_NAME, PROGRAM_NAME, WEIGHTS_NAME, file_digest
from tunefarm.model.model_run import Reference
from tunefarm.model.model_writing import model_manifest, new_file, staged, write_model
from tunefarm.model.timing.model_times import ModelTimes
from tunefarm.model.timing.timing import times_of_builds
from tunefarm_schemas.tuning.model import ModelFunction, ModelManifest

_UNTRIED: Final = "untried"
_NAMES: Final = (WEIGHTS_NAME, LIBRARY_NAME, PROGRAM_NAME, MANIFEST_NAME)

Results = Sequence[tuple[FunctionBuilt, Path]]
"""What the builders made of each order, with the path of its object file."""


@dataclass(frozen=True)
class PairCompilation:
    """The build that ships, and the times of both. ``tuned`` is None if no function has a record."""

    shipped: Compilation
    tuned: ModelTimes | None
    untried: ModelTimes


@dataclass(frozen=True)
class _Build:
    """A build in its folder, beside the other one."""

    folder: Path
    manifest: ModelManifest
    library: bytes


class PairCompiler(ModelCompiler):
    """Compiles both builds of one model side by side.

    They differ only in their kernels: the model is prepared once, a function without a record is compiled once, both
    are compared with the same reference, and they share the file of the weights. So either can ship as it was measured.
    """

    def compile_pair(self, model: ImportedModel, target: str, name: str) -> PairCompilation:
        """Compile, verify and time both builds, and put the faster one into the folder.

        After an error, or if this process is killed before the last step, the folder is unchanged.

        Raises:
            BadInput: the model or the target cannot be compiled, or its results differ from the reference.
        """
        with ExitStack() as stack:
            scratch = Path(tempfile.mkdtemp(prefix="tunefarm-model-"))
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            scratch.chmod(0o711)
            staging = stack.enter_context(staged(self._folder))
            weights = stack.enter_context(new_file(staging))
            with self._stage("prepare"):
                parts, program = self._prepared(model, target, scratch, weights, None, stack)
            orders = self._orders(parts, scratch)
            has_records = any(order.trace is not None for _, order in orders)
            with self._stage(f"build {len(parts.tasks)} functions"):
                functions = self._functions_of_both(orders, scratch)
            weights_digest = file_digest(weights.descriptor)
            builds = [
                _Build(folder, self._manifest(model, parts, name, library, program, weights_digest, built), library)
                for folder, (library, built) in zip((staging, staging / _UNTRIED), functions, strict=False)
            ]
            write_model(staging, builds[0].manifest, builds[0].library, program, weights.path)
            for other in builds[1:]:
                _write_beside(other, program, staging / WEIGHTS_NAME)
            with self._stage("verify"), ExitStack() as until_compared:
                reference = self._reference(until_compared, model, orders, parts, scratch)
                manifests = [self._compared_only(each, reference) for each in builds]
            with self._stage("time"):
                times = times_of_builds(self._fork_server, [each.folder for each in builds], self._functions_file)
            manifest = manifests[0]
            if len(builds) > 1 and times[1].latency_s < times[0].latency_s:
                manifest = manifests[1]
                for file_name in _NAMES:
                    (builds[1].folder / file_name).replace(staging / file_name)
        shipped_s = min(each.latency_s for each in times)
        shipped = self._compilation(manifest, shipped_s, (*model.notes, *parts.notes))
        return PairCompilation(shipped, times[0] if has_records else None, times[-1])

    def _functions_of_both(self, orders: Orders, scratch: Path) -> list[tuple[bytes, list[ModelFunction]]]:
        """The library and functions of the build with records, and of the one without if there are records."""
        with_record = [at for at, (_, order) in enumerate(orders) if order.trace is not None]
        plain = [(task, order.model_copy(update={"trace": None, "record_id": None})) for task, order in orders]
        builders = FunctionBuilders(self._fork_server, own_folder(scratch, "objects"), lambda _: None)
        results = builders.run([order for _, order in orders] + [plain[at][1] for at in with_record])
        tuned: Results = results[: len(orders)]
        made = [self._linked_functions(orders, tuned, own_folder(scratch, "link"))[:2]]
        if with_record:
            instead = dict(zip(with_record, results[len(orders) :], strict=True))
            untried = [instead.get(at, result) for at, result in enumerate(tuned)]
            made.append(self._linked_functions(plain, untried, own_folder(scratch, "link-untried"))[:2])
        return made

    def _manifest(
        self,
        model: ImportedModel,
        parts: PreparedParts,
        name: str,
        library: bytes,
        program: bytes,
        weights_digest: str,
        built: Sequence[ModelFunction],
    ) -> ModelManifest:
        external = self._external(program, library)
        return model_manifest(model, parts, name, library, program, weights_digest, built, external)

    def _compared_only(self, build: _Build, reference: Reference | None) -> ModelManifest:
        return self._compared(build.folder, build.manifest, build.library, reference, timed=())[0]


def _write_beside(build: _Build, program: bytes, weights: Path) -> None:
    """Write a build whose weights are the file ``weights`` of the other one."""
    build.folder.mkdir()
    build.folder.chmod(0o755)
    link = build.folder / f".{WEIGHTS_NAME}"
    try:
        os.link(weights, link)
    except OSError:  # a file system without links
        shutil.copyfile(weights, link)
    write_model(build.folder, build.manifest, build.library, program, link)
