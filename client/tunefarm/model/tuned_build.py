"""Builds a tuned model beside the same model without a trial, and ships the faster one."""

import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tunefarm.frontend.model_import import ImportedModel
from tunefarm.model.compilation import ChosenRecord, Compilation, ModelCompiler
from tunefarm.model.loaded_model import CompiledModel, load_model
from tunefarm.model.model_folder import LIBRARY_NAME
from tunefarm.model.model_run import run_model
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.frozen import JsonValue
from tunefarm_schemas.tuning.model import ModelManifest

TURNS: Final = 3
"""The two builds are timed by turns, each in so many processes. The fastest counts: load of the host only adds time."""


@dataclass(frozen=True)
class BuiltModel:
    """A compiled model in a folder.

    Attributes:
        folder: of its files.
        manifest: of the build that ships.
        tuned_s: seconds of one run with the records' schedules, None if no function has a record.
        untried_s: the same with the schedules that are chosen without a trial; None if it was not built.
    """

    folder: Path
    manifest: ModelManifest = field(repr=False)
    tuned_s: float | None
    untried_s: float | None

    @property
    def is_tuned(self) -> bool:
        """Whether the tuned build ships: it is built, and not slower."""
        return self.tuned_s is not None and (self.untried_s is None or self.tuned_s <= self.untried_s)

    @property
    def latency_s(self) -> float | None:
        """Seconds of one run of what ships."""
        return self.tuned_s if self.is_tuned else self.untried_s

    @property
    def times_s(self) -> dict[str, float]:
        """The measured times of one run, by what was measured."""
        named = (("without a trial", self.untried_s), ("tuned", self.tuned_s))
        return {name: latency_s for name, latency_s in named if latency_s is not None}

    def figures(self) -> dict[str, JsonValue]:
        """What ``tune --json`` prints of it."""
        verified = self.manifest.verified
        return {
            "tuned_s": self.tuned_s,
            "untried_s": self.untried_s,
            "is_tuned": self.is_tuned,
            "worst_error": None if verified is None else verified.worst_error,
            "reference": None if verified is None else verified.reference,
        }

    def load(self, functions: Collection[str] = ()) -> CompiledModel:
        """Load it into this process. ``functions`` is that of ``load_model``. Raises BadInput if its files changed."""
        return load_model(self.folder, functions=functions)


@dataclass(frozen=True)
class ModelBuilder:
    """What both builds have in common.

    ``target`` is canonical JSON; ``say`` gets the name of each stage; ``functions_file`` registers the external
    functions that the model calls.
    """

    zygote: ForkServer
    model: ImportedModel
    target: str
    name: str
    say: Callable[[str], None] = lambda _: None
    functions_file: Path | None = None

    def build(self, folder: Path, records: Mapping[str, ChosenRecord]) -> BuiltModel:
        """Build with ``records``, by workload id, and without any; verify, time by turns, and keep the faster one.

        Raises:
            BadInput: the model cannot be compiled, or its results differ from the unscheduled build's.
        """
        if not records:
            untried = self._compiled(folder, {})
            return BuiltModel(folder, untried.manifest, None, untried.latency_s)
        tuned = self._compiled(folder, records)
        other = Path(tempfile.mkdtemp(prefix=".untried-", dir=folder))
        other.chmod(0o755)
        try:
            untried = self._compiled(other, {}, is_verified=False)
            turns = [(self._latency_s(tuned), self._latency_s(untried)) for _ in range(TURNS)]
        finally:
            shutil.rmtree(other)
        tuned_s, untried_s = (min(times_s) for times_s in zip(*turns, strict=True))
        built = BuiltModel(folder, tuned.manifest, tuned_s, untried_s)
        if built.is_tuned:
            return built
        untried = self._compiled(folder, {})  # again, because only a build that ships is verified
        return BuiltModel(folder, untried.manifest, built.tuned_s, built.untried_s)

    def _compiled(self, folder: Path, records: Mapping[str, ChosenRecord], *, is_verified: bool = True) -> Compilation:
        compiler = ModelCompiler(
            self.zygote,
            folder,
            records=lambda _tasks, _target, _generator: records,
            functions_file=self.functions_file,
            is_verified=is_verified,
            say=self.say,
        )
        return compiler.compile(self.model, self.target, self.name)

    def _latency_s(self, compilation: Compilation) -> float:
        """Seconds of one run, in a new process."""
        library = (compilation.folder / LIBRARY_NAME).read_bytes()
        functions = compilation.manifest.callees, self.functions_file
        return run_model(self.zygote, compilation.folder, library, None, *functions).latency_s
