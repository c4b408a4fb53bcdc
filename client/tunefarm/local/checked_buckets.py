"""A model that is tuned for buckets of sizes: its entries, and the test of its padding before anything is measured."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tunefarm.frontend.model_import import ImportedModel
from tunefarm.frontend.model_source import ModelFile
from tunefarm.intake.module_source import ModuleSource, PythonSource
from tunefarm.model.compilation import ModelCompiler
from tunefarm.model.dynamic.bucketed_model import BucketedCompiler, BucketedSource
from tunefarm.options.model_options import ModelOptions
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.dynamic_shape import DynamicShape


@dataclass(frozen=True)
class CheckedBuckets:
    """A model with an entry for each combination of sizes, and what its manifest says of them."""

    imported: ImportedModel
    dynamic: DynamicShape

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The sizes of each dimension by its name, as given or chosen."""
        return {each.name: each.sizes for each in self.dynamic.dimensions}


def checked_buckets(
    fork_server: ForkServer,
    source: ModuleSource | ModelFile,
    options: ModelOptions,
    target: str,
    say: Callable[[str], None] = lambda _: None,
) -> CheckedBuckets:
    """Choose the sizes of ranges, read the model for all sizes, and test a build without a trial.

    The test comes first because a search takes hours: a model whose results depend on the padding is not tuned.

    Raises:
        BadInput: the model has no such dimensions, cannot be read or built, or results depend on the padding.
    """
    if options.buckets is None or not isinstance(source, ModelFile | PythonSource):
        raise BadInput("bucket", "the module is not a model with dynamic dimensions.", "Leave it out.")

    def compiler(into: Path, is_verified: bool) -> ModelCompiler:
        return ModelCompiler(fork_server, into, functions_file=options.functions_file, is_verified=is_verified)

    bucketed = BucketedSource(source, options.shapes, options.buckets, options.is_traced)
    several = BucketedCompiler(fork_server, bucketed, compiler, options.functions_file, say)
    model = several.read(target)
    with tempfile.TemporaryDirectory(prefix="tunefarm-buckets-") as folder:
        compilation = several.compile(model, Path(folder) / "model", target, "buckets")
    assert compilation.manifest.dynamic is not None
    return CheckedBuckets(model.imported, compilation.manifest.dynamic)
