"""Compiling models from Python."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunefarm.frontend.framework import is_torch_module
from tunefarm.frontend.model_import import ImportedModel, import_model
from tunefarm.frontend.model_source import ModelFile, parse_model_source
from tunefarm.intake.module_source import PythonSource
from tunefarm.intake.tvm_objects import TargetLike, target_text
from tunefarm.local.machine import LocalMachine
from tunefarm.local.model_records import records_of
from tunefarm.model.compilation import ModelCompiler
from tunefarm.model.dynamic.bucketed_model import BucketedCompiler, BucketedSource
from tunefarm.model.loaded_model import CompiledModel, load_model
from tunefarm.model.race.library_race import DEFAULT_RACE_S, choose_libraries
from tunefarm.model.sizes.wanted_buckets import WantedBuckets, require_runs, wanted_buckets
from tunefarm.options.job_options import output_folder
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings

if TYPE_CHECKING:
    from tunefarm.frontend.relax_model import RelaxModel


def compile_model(
    model: Any,
    example_inputs: Any = None,
    target: TargetLike = None,
    *,
    output: str | Path | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    buckets: Sequence[str] | WantedBuckets | None = None,
    pad: Mapping[str, float] | None = None,
    exact_buckets: bool = False,
    functions: str | Path | None = None,
    fresh: bool = False,
    verify: bool = True,
    libraries: bool | Sequence[str] = False,
    race_s: float = DEFAULT_RACE_S,
    update_in_place: bool = False,
    settings: Settings | None = None,
) -> CompiledModel:
    """Compile a model without measuring anything, and load it; also available as ``tunefarm.compile``.

    Args:
        model: a path or ``FILE.py:NAME``, as the command line takes it, a torch module, or an ``IRModule`` with Relax
            functions.
        example_inputs: what a torch module is exported with: a tuple, one tensor, or a dictionary of keyword arguments.
        target: a ``tvm.target.Target``, a dictionary or its JSON, or a preset. Default: this host's processor.
        output: the folder to write; by default one that is removed at once.
        shapes: sizes of inputs with dynamic dimensions, by name.
        buckets: sizes of dynamic dimensions, such as ``["batch=1,8,32", "seq=16..512"]``.
        pad: what inputs are padded with, by name; zero for others.
        exact_buckets: serve exactly the sizes of ``buckets``, without padding.
        functions: a Python file that registers the external functions that the model calls.
        fresh: ignore the records in the store.
        verify: run the compiled model, and compare it where that is quick.
        libraries: whether the installed libraries may run parts of the model, or the names of those that may.
        race_s: how long to time mixes of kernels and libraries, in seconds.
        update_in_place: let calls change inputs, as ``load_model`` describes.
        settings: the location of the store. Default: the environment.

    Raises:
        BadInput: an argument is invalid, or the model cannot be compiled.
    """
    choice = choose_libraries(() if libraries is True else tuple(libraries), race_s) if libraries else None
    wanted = _wanted(buckets, pad or {}, is_exact=exact_buckets)
    with tempfile.TemporaryDirectory(prefix="tunefarm-compile-") as temporary:
        folder = Path(temporary) / "model" if output is None else output_folder(str(output))
        with LocalMachine(settings) as machine:
            own = None if functions is None else Path(functions).resolve()

            def compiler(into: Path, is_verified: bool) -> ModelCompiler:
                return ModelCompiler(
                    machine.fork_server,
                    into,
                    records=(lambda _tasks, _target, _generator: {}) if fresh else records_of(machine),
                    functions_file=own,
                    is_verified=is_verified and verify,
                    libraries=choice,
                )

            if wanted is None:
                imported, name = _imported(machine, model, example_inputs, shapes or {}, Path(temporary))
                compilation = compiler(folder, True).compile(imported, target_text(target), name)
            else:
                require_runs(wanted, is_verified=verify)
                bucketed = BucketedSource(_source_of(model), shapes or {}, wanted)
                several = BucketedCompiler(machine.fork_server, bucketed, compiler, own)
                read = several.read(target_text(target))
                compilation = several.compile(read, folder, target_text(target), Path(bucketed.source.path).stem)
        callees = _registered(compilation.manifest.callees, functions)
        return load_model(folder, functions=callees, update_in_place=update_in_place)


def _registered(callees: Sequence[str], functions: str | Path | None) -> Sequence[str]:
    """Register the external functions in this process; returns those that the model may call."""
    if functions is None:
        return callees
    from tvm_ffi.registry import list_global_func_names

    from tunefarm.intake.user_file import register_functions

    if set(callees) <= set(list_global_func_names()):
        return callees  # the caller imported the file
    return register_functions(str(Path(functions).resolve()))


def _imported(
    machine: LocalMachine,
    model: Any,
    example_inputs: Any,
    shapes: Mapping[str, tuple[int, ...]],
    temporary: Path,
) -> tuple[ImportedModel, str]:
    name = type(model).__name__
    if is_torch_module(model):
        from tunefarm.frontend.pytorch.module_export import export_module, save_exported

        model = save_exported(export_module(model, example_inputs), temporary / f"{name}.pt2")
    if isinstance(model, str | Path):
        source = parse_model_source(str(model))
        return import_model(machine.fork_server, source, shapes), Path(source.path).stem
    from tunefarm.frontend.relax_script import import_relax

    return _passed_on(import_relax(model, None)), "model"


def _wanted(
    buckets: Sequence[str] | WantedBuckets | None, pad: Mapping[str, float], *, is_exact: bool
) -> WantedBuckets | None:
    if isinstance(buckets, WantedBuckets):
        return buckets
    return wanted_buckets(buckets or (), [f"{name}={value}" for name, value in pad.items()], is_exact=is_exact)


def _source_of(model: Any) -> PythonSource | ModelFile:
    if not isinstance(model, str | Path):
        fix = "Give a file or FILE.py:NAME; for a torch module use tunefarm.torch.compile(..., dynamic=...)."
        raise BadInput("buckets", "objects of this process have constant shapes.", fix)
    return parse_model_source(str(model))


def _passed_on(model: "RelaxModel") -> ImportedModel:
    import tvm

    module_json = str(tvm.ir.save_json(model.module))
    return ImportedModel(module_json, model.weights, model.framework, model.notes, model.references)


compile = compile_model  # noqa: A001 - it is reached as tunefarm.compile
