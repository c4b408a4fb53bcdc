"""Compiles a model for buckets of sizes: chooses them, builds an entry for each, tests what padding changes."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

from tunefarm.frontend.dynamic.entry_import import dimensions_of, entry_name, import_entries
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.frontend.model_source import ModelFile
from tunefarm.intake.module_source import PythonSource
from tunefarm.model.compilation import Compilation, ModelCompiler
from tunefarm.model.dynamic.dimension_places import EXACT_FIX, input_places, output_places
from tunefarm.model.dynamic.dynamic_run import DynamicRun
from tunefarm.model.dynamic.sized_inputs import SizedInputs, sized_inputs
from tunefarm.model.model_writing import staged, write_manifest
from tunefarm.model.sizes.bucket_choice import BucketChoice, choose_buckets, interpolated, sampled_sizes
from tunefarm.model.sizes.wanted_buckets import WantedBuckets
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.dynamic_shape import DynamicDimension, DynamicShape, SizeBucket
from tunefarm_schemas.tuning.model import ModelEntry, ModelManifest

_SAMPLED: Final = 6
"""Sizes of a range that are built without a trial and timed; the times of others are interpolated."""
_MASK_FIX: Final = (
    f"{EXACT_FIX} Or give the model an input that masks padded elements, and state its padding: --pad INPUT=VALUE."
)

Shape = tuple[int, ...]
NewCompiler = Callable[[Path, bool], ModelCompiler]
"""A compiler that writes to a folder, and whether it verifies."""


@dataclass(frozen=True)
class BucketedSource:
    """A model with dynamic dimensions, before it is read."""

    source: PythonSource | ModelFile
    given: Mapping[str, Shape]
    wanted: WantedBuckets
    traced: bool = False


@dataclass(frozen=True)
class BucketedModel:
    """A model with an entry for each combination of sizes.

    Attributes:
        imported: all entries.
        inputs: where the dimensions are.
        sizes: of each dimension, ascending.
        choices: how the sizes of each dimension were chosen; None where the user named them.
    """

    imported: ImportedModel
    inputs: SizedInputs
    sizes: tuple[tuple[int, ...], ...]
    choices: tuple[BucketChoice | None, ...]


class BucketedCompiler:
    """Compiles one model for buckets: ``read``, then ``compile``."""

    def __init__(
        self,
        fork_server: ForkServer,
        model: BucketedSource,
        new_compiler: NewCompiler,
        functions_file: Path | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``functions_file`` is as for ``ModelCompiler``. ``say`` gets each step."""
        self._fork_server = fork_server
        self._model = model
        self._new_compiler = new_compiler
        self._run = DynamicRun(fork_server, functions_file)
        self._say = say

    def read(self, target: str) -> BucketedModel:
        """Choose the sizes of ranges, and read the model for each combination of sizes.

        Raises:
            BadInput: it has no such dimensions, or cannot be read or run for some sizes.
        """
        wanted = self._model.wanted
        inputs = sized_inputs(dimensions_of(self._fork_server, self._model.source), self._model.given, wanted)
        choices = tuple(self._choice(at, inputs, target) for at in range(len(wanted.dimensions)))
        chosen = zip(wanted.dimensions, choices, strict=True)
        sizes = tuple(each.sizes if choice is None else choice.sizes for each, choice in chosen)
        combinations = list(product(*sizes))
        self._say(f"reading the model for {len(combinations)} combinations of sizes")
        return BucketedModel(self._imported(inputs, combinations), inputs, sizes, choices)

    def compile(self, model: BucketedModel, folder: Path, target: str, name: str) -> Compilation:
        """Compile and test all entries. After an error the folder is unchanged.

        Raises:
            BadInput: as of ``ModelCompiler.compile``, or results depend on the padding.
        """
        folder = folder.resolve()
        with staged(folder) as staging:
            compilation = self._new_compiler(staging, True).compile(model.imported, target, name)
            manifest = self._with_dynamic(model, staging, compilation, target)
            write_manifest(staging, manifest)
        return replace(compilation, folder=folder, manifest=manifest)

    def _choice(self, at: int, inputs: SizedInputs, target: str) -> BucketChoice | None:
        """The sizes of a range, with the other dimensions at their largest."""
        wanted = self._model.wanted.dimensions
        dimension = wanted[at]
        if not dimension.is_range:
            return None
        samples = sampled_sizes(dimension.low, dimension.high, _SAMPLED)
        shapes = [tuple(size if n == at else each.largest for n, each in enumerate(wanted)) for size in samples]
        self._say(f"timing {dimension.name} at {', '.join(map(str, samples))}")
        with _scratch() as scratch:
            built = self._new_compiler(scratch, False).compile(self._imported(inputs, shapes), target, "sizes")
            latencies_s = self._run.latencies_s(scratch, built.manifest)
        times_s = interpolated(
            dimension.low, dimension.high, samples, [latencies_s[entry_name(each)] for each in shapes]
        )
        return choose_buckets(dimension.low, times_s, self._model.wanted.max_buckets)

    def _imported(self, inputs: SizedInputs, combinations: Sequence[Shape]) -> ImportedModel:
        entries = inputs.entries(combinations)
        return import_entries(self._fork_server, self._model.source, entries, traced=self._model.traced)

    def _with_dynamic(self, model: BucketedModel, folder: Path, compilation: Compilation, target: str) -> ModelManifest:
        """The manifest with its dynamic dimensions; ``folder`` is that of the model."""
        manifest = compilation.manifest
        entries = {each.name: each for each in manifest.entries}
        exact = {sizes: entries[entry_name(sizes)] for sizes in product(*model.sizes)}
        if self._model.wanted.is_exact:
            return manifest.model_copy(update={"dynamic": self._dynamic(model, exact, has_outputs=False)})
        with _scratch() as scratch:
            self._say("testing whether results depend on the padding")
            probe = self._probe(model, scratch, target)
            dynamic = self._dynamic(model, {**exact, **probe}, has_outputs=True)
            manifest = manifest.model_copy(update={"dynamic": dynamic})
            write_manifest(folder, manifest)
            is_quantized = compilation.is_quantized
            found = self._run.padding(folder, scratch if probe else None, manifest, is_quantized=is_quantized)
        if found.problem:
            raise BadInput("bucket", f"{found.problem}.", _MASK_FIX)
        dimensions = tuple(
            each.model_copy(update={"is_splittable": is_splittable})
            for each, is_splittable in zip(dynamic.dimensions, found.splittable, strict=True)
        )
        return manifest.model_copy(update={"dynamic": dynamic.model_copy(update={"dimensions": dimensions})})

    def _probe(self, model: BucketedModel, scratch: Path, target: str) -> dict[Shape, ModelEntry]:
        """Build the model for sizes below those of all buckets, to compare with; none if it has no such sizes."""
        smallest = tuple(each[0] for each in model.sizes)
        lower = tuple(max(1, 2 * each // 3) for each in smallest)
        single = [at for at, each in enumerate(model.sizes) if len(each) == 1]
        less = tuple(max(1, each - 1) for each in smallest)
        for probed in dict.fromkeys((_one_by_one(smallest, lower, single), (lower,), (less,))):
            sizes = [each for each in probed if each != smallest]
            if not sizes:
                return {}
            try:
                imported = self._imported(model.inputs, sizes)
            except BadInput:
                continue
            manifest = self._new_compiler(scratch, True).compile(imported, target, "probe").manifest
            built = {each.name: each for each in manifest.entries}
            return {each: built[entry_name(each)] for each in sizes}
        if all(len(each) > 1 or each[0] == 1 for each in model.sizes):
            return {}
        raise BadInput("bucket", "the model cannot be read for a smaller size to compare with.", EXACT_FIX)

    def _dynamic(self, model: BucketedModel, entries: Mapping[Shape, ModelEntry], *, has_outputs: bool) -> DynamicShape:
        wanted = self._model.wanted
        names = [each.name for each in wanted.dimensions]
        outputs = output_places(entries, names) if has_outputs else [()] * len(names)
        first = next(iter(entries.values()))
        dimensions = tuple(
            DynamicDimension(
                name=name,
                sizes=sizes,
                inputs=input_places(first, places),
                outputs=of_outputs,
                regret=None if choice is None else choice.max_regret,
            )
            for name, sizes, places, of_outputs, choice in zip(
                names, model.sizes, model.inputs.places, outputs, model.choices, strict=True
            )
        )
        buckets = tuple(SizeBucket(sizes=sizes, entry=entry_name(sizes)) for sizes in product(*model.sizes))
        return DynamicShape(
            dimensions=dimensions, buckets=buckets, is_exact=wanted.is_exact, padding=dict(wanted.padding)
        )


def _one_by_one(sizes: Shape, lower: Shape, single: Sequence[int]) -> tuple[Shape, ...]:
    """Sizes of which one more of the dimensions with a single size is lower each time, and all in the end.

    They tell apart which outputs grow with which of these dimensions.
    """
    steps = (single[:count] for count in range(1, len(single)))
    mixed = (tuple(lower[at] if at in step else size for at, size in enumerate(sizes)) for step in steps)
    return tuple(dict.fromkeys((*mixed, lower)))


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder that children of other users may read."""
    folder = Path(tempfile.mkdtemp(prefix="tunefarm-buckets-"))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
