"""``tunefarm compile``: compiles a model without a trial."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tunefarm.cli.model.model_arguments import FreshOption, ModelArgument, ShapeOption, say_kinds, say_notes
from tunefarm.frontend.model_source import parse_model_source
from tunefarm.model.sizes.wanted_buckets import MAX_BUCKETS, require_runs, wanted_buckets
from tunefarm.options.bucket_options import BucketOption, ExactBucketsOption, MaxBucketsOption, PadOption
from tunefarm.options.job_options import output_folder
from tunefarm.options.library_option import (
    DEFAULT_RACE_S,
    LibrariesOption,
    LibraryOption,
    RaceSecondsOption,
    library_choice,
)
from tunefarm.options.model_options import ModelOptions
from tunefarm.startup.prestarted_fork_server import take_fork_server
from tunefarm.terminal.console import complain, say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next, trying
from tunefarm.terminal.tables import print_json
from tunefarm_schemas.tuning.dynamic_shape import DynamicDimension
from tunefarm_schemas.tuning.model import ModelManifest
from tunefarm_schemas.views.quantities import bytes_text, counted, latency_text

if TYPE_CHECKING:
    from tunefarm.model.compilation import Compilation


def compile_model(
    model: ModelArgument,
    output: Annotated[str, typer.Option(help="Folder for the compiled model.")],
    target: Annotated[
        str, typer.Option(help="host, host:THREADS, a preset such as x86-64-v3, or a TVM target as JSON.")
    ] = "",
    shape: ShapeOption = None,
    bucket: BucketOption = None,
    pad: PadOption = None,
    max_buckets: MaxBucketsOption = MAX_BUCKETS,
    exact_buckets: ExactBucketsOption = False,
    functions: Annotated[
        str | None, typer.Option(metavar="FILE.py", help="Registers the external functions that the model calls.")
    ] = None,
    traced: Annotated[bool, typer.Option("--traced", help="Trace a torch module with torch.fx.")] = False,
    fresh: FreshOption = False,
    verify: Annotated[bool, typer.Option(help="Run the compiled model, and compare it where that is quick.")] = True,
    libraries: LibrariesOption = False,
    library: LibraryOption = None,
    race_seconds: RaceSecondsOption = DEFAULT_RACE_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Compile a model for this machine or another CPU, without measuring anything.

    Functions get the schedules of their records, where the local store has some, and others an untried one.
    """
    from tunefarm.frontend.model_import import import_model
    from tunefarm.local.machine import LocalMachine
    from tunefarm.local.model_records import records_of
    from tunefarm.model.compilation import ModelCompiler
    from tunefarm.model.dynamic.bucketed_model import BucketedCompiler, BucketedSource

    folder, source = output_folder(output), parse_model_source(model)
    options = ModelOptions.of_texts(shape, functions, traced=traced)
    choice = library_choice(race_seconds, library, is_asked=libraries)
    wanted = wanted_buckets(bucket or (), pad or (), max_buckets, is_exact=exact_buckets)
    with LocalMachine(fork_server=take_fork_server()) as machine:

        def compiler(into: Path, is_verified: bool) -> ModelCompiler:
            return ModelCompiler(
                machine.fork_server,
                into,
                records=(lambda _tasks, _target, _generator: {}) if fresh else records_of(machine),
                functions_file=options.functions_file,
                is_verified=is_verified and verify,
                libraries=choice,
                say=complain,
            )

        complain(f"reading {model}")
        if wanted is None:
            imported = import_model(machine.fork_server, source, options.shapes, traced=traced)
            compilation = compiler(folder, True).compile(imported, target, Path(source.path).stem)
        else:
            require_runs(wanted, is_verified=verify)
            bucketed = BucketedSource(source, options.shapes, wanted, traced)
            buckets = BucketedCompiler(machine.fork_server, bucketed, compiler, options.functions_file, complain)
            compilation = buckets.compile(buckets.read(target), folder, target, Path(source.path).stem)
    _print(compilation, as_json=as_json)
    return ExitCode.FINE


def _print(compilation: "Compilation", *, as_json: bool) -> None:
    manifest = compilation.manifest
    if as_json:
        print_json(
            {
                "folder": str(compilation.folder),
                "stages": {stage.name: stage.took_s for stage in compilation.stages},
                "size_bytes": compilation.size_bytes,
                "latency_s": compilation.latency_s,
                "verified": None if manifest.verified is None else manifest.verified.model_dump(mode="json"),
                "functions": [each.model_dump(mode="json") for each in manifest.functions],
                "regions": [each.model_dump(mode="json") for each in manifest.regions],
                "updated_inputs": {each.entry: list(each.inputs) for each in manifest.updated_inputs},
                "race": None if compilation.race is None else compilation.race.figures(),
                "problems": dict(compilation.problems),
                "notes": list(compilation.notes),
                "dynamic": None if manifest.dynamic is None else manifest.dynamic.model_dump(mode="json"),
            }
        )
        return
    say_notes(compilation.notes, compilation.problems)
    for stage in compilation.stages:
        say(f"{stage.took_s:7.1f} s  {stage.name}")
    if compilation.race is not None:
        from tunefarm.model.race.race_text import race_text

        say(race_text(compilation.race))
    for region in manifest.regions:
        say(f"{region.file}: {counted(len(region.operators), 'operator')}, run by {region.requirement}")
    say_kinds(manifest.functions)
    for line in (*bucket_lines(manifest), *_update_lines(manifest)):
        say(line)
    say(f"{compilation.folder}: {bytes_text(compilation.size_bytes)}")
    if compilation.latency_s is not None:
        say(f"{latency_text(compilation.latency_s)} a run on random inputs")
    say(_verified_text(compilation))
    tell_next(trying(compilation.folder))


def _verified_text(compilation: "Compilation") -> str:
    verified = compilation.manifest.verified
    if verified is None:
        return "not compared: the unscheduled build would run too long, or --no-verify was given"
    sets = f"on {counted(verified.input_sets, 'set')} of inputs"
    error = f"its worst error is {verified.worst_error:.3g} times what is allowed"
    if verified.reference == "unscheduled functions":
        return f"each function equal to that of an unscheduled build {sets}, since roundings add up: {error}"
    against = "the framework" if verified.reference == "framework" else "an unscheduled build"
    return f"equal to {against} {sets}: {error}"


def _update_lines(manifest: ModelManifest) -> list[str]:
    """A line for entries that can update inputs, such as the caches of a decoder."""
    counts = sorted({len(each.inputs) for each in manifest.updated_inputs})
    if not counts:
        return []
    inputs = counted(counts[-1], "input") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} inputs"
    return [f"{inputs} can be updated in place: load_model(..., update_in_place=True)"]


def bucket_lines(manifest: ModelManifest) -> list[str]:
    """A line for each dynamic dimension."""
    dynamic = manifest.dynamic
    if dynamic is None:
        return []
    return [_line(each, is_exact=dynamic.is_exact) for each in dynamic.dimensions]


def _line(dimension: DynamicDimension, *, is_exact: bool) -> str:
    sizes = ", ".join(map(str, dimension.sizes))
    if is_exact:
        return f"{dimension.name}: exactly {sizes}"
    text = f"{dimension.name}: buckets of {sizes}"
    if dimension.regret is not None:
        text += f"; a size is predicted to take at most {dimension.regret:.0%} longer than alone"
    if dimension.is_splittable:
        text += "; larger inputs are split"
    return text
