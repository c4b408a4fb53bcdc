"""Builds a tuned model beside the same model without a trial, and ships the faster one."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tunefarm.frontend.model_import import ImportedModel
from tunefarm.model.compilation import ModelCompiler
from tunefarm.model.function_orders import ChosenRecord
from tunefarm.model.loaded_model import CompiledModel, load_model
from tunefarm.model.race.library_race import LibraryChoice
from tunefarm.model.race.race_result import RaceResult
from tunefarm.model.timing.model_times import EntryLatency, ModelTimes
from tunefarm.model.tuned.pair_compiler import PairCompiler
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.frozen import JsonValue
from tunefarm_schemas.tuning.model import ModelManifest


@dataclass(frozen=True)
class BuiltModel:
    """A compiled model in a folder.

    Attributes:
        folder: of its files.
        manifest: of the build that ships.
        tuned: times of one run with the records' schedules; None if no function has a record.
        untried: the same with the schedules that are chosen without a trial.
        race: which parts of the build that ships libraries run; None if they were not asked for.
    """

    folder: Path
    manifest: ModelManifest = field(repr=False)
    tuned: ModelTimes | None
    untried: ModelTimes
    race: RaceResult | None = None

    @property
    def tuned_s(self) -> float | None:
        """Seconds of one run of the tuned build with warm caches; None if there is none."""
        return None if self.tuned is None else self.tuned.latency_s

    @property
    def untried_s(self) -> float:
        """Seconds of one run of the build without a trial, with warm caches."""
        return self.untried.latency_s

    @property
    def is_tuned(self) -> bool:
        """Whether the tuned build ships: it is built, and not slower."""
        return self.tuned_s is not None and self.tuned_s <= self.untried_s

    @property
    def latency_s(self) -> float:
        """Seconds of one run of the first entry of what ships, with warm caches."""
        if self.race is not None and self.race.winner.entries_s:
            return self.race.winner.entries_s[0]
        return min(self.tuned_s or self.untried_s, self.untried_s)

    def figures(self) -> dict[str, JsonValue]:
        """What ``tune --json`` prints of it, and what the job's report shows."""
        verified = self.manifest.verified
        return {
            "tuned_s": self.tuned_s,
            "untried_s": self.untried_s,
            "is_tuned": self.is_tuned,
            "tuned": None if self.tuned is None else self.tuned.model_dump(mode="json"),
            "untried": self.untried.model_dump(mode="json"),
            "libraries": None if self.race is None else self.race.figures(),
            "worst_error": None if verified is None else verified.worst_error,
            "reference": None if verified is None else verified.reference,
            "buckets": self._buckets(),
        }

    def _buckets(self) -> list[JsonValue]:
        """The sizes and the times of each bucket; none for a model of constant shapes."""
        dynamic = self.manifest.dynamic
        if dynamic is None:
            return []
        names = [each.name for each in dynamic.dimensions]
        untried = {each.entry: each for each in self.untried.entries}
        tuned = {} if self.tuned is None else {each.entry: each for each in self.tuned.entries}
        return [
            {
                "sizes": dict(zip(names, bucket.sizes, strict=True)),
                "untried": _figures(untried.get(bucket.entry)),
                "tuned": _figures(tuned.get(bucket.entry)),
            }
            for bucket in dynamic.buckets
            if len(dynamic.buckets) > 1
        ]

    def load(self, functions: Collection[str] = ()) -> CompiledModel:
        """Load it into this process. ``functions`` is that of ``load_model``. Raises BadInput if its files changed."""
        return load_model(self.folder, functions=functions)


def _figures(times: EntryLatency | None) -> JsonValue:
    return None if times is None else {"latency_s": times.latency_s, "cold_latency_s": times.cold_latency_s}


@dataclass(frozen=True)
class ModelBuilder:
    """What both builds have in common.

    ``target`` is canonical JSON; ``say`` gets the name of each stage; ``functions_file`` registers the external
    functions that the model calls; ``libraries`` may run parts of the build that ships.
    """

    fork_server: ForkServer
    model: ImportedModel
    target: str
    name: str
    say: Callable[[str], None] = lambda _: None
    functions_file: Path | None = None
    libraries: LibraryChoice | None = None

    def build(self, folder: Path, records: Mapping[str, ChosenRecord]) -> BuiltModel:
        """Build with ``records``, by workload id, and without any; verify and time both, and keep the faster one.

        Then race it with libraries, if they may be used.

        Raises:
            BadInput: the model cannot be compiled, or its results differ from the unscheduled build's.
        """
        compiler = PairCompiler(
            self.fork_server,
            folder,
            records=lambda _tasks, _target, _generator: records,
            functions_file=self.functions_file,
            say=self.say,
        )
        pair = compiler.compile_pair(self.model, self.target, self.name)
        built = BuiltModel(folder, pair.shipped.manifest, pair.tuned, pair.untried)
        if self.libraries is None:
            return built
        chosen = records if built.is_tuned else {}
        again = ModelCompiler(
            self.fork_server,
            folder,
            records=lambda _tasks, _target, _generator: chosen,
            functions_file=self.functions_file,
            libraries=self.libraries,
            say=self.say,
        )
        raced = again.compile(self.model, self.target, self.name)
        return replace(built, manifest=raced.manifest, race=raced.race)
