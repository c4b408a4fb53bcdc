"""``tunefarm bundle``: build models for devices without TVM, and check bundles."""

from typing import TYPE_CHECKING, Annotated, Final, get_args

import typer

from tunefarm.cli.model.model_arguments import FreshOption, ModelArgument, ShapeOption, say_kinds, say_notes
from tunefarm.cli.remote_options import AsJson
from tunefarm.terminal.console import complain, say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.tables import print_json
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import BundleForm, BundleRequirements
from tunefarm_schemas.views.quantities import bytes_text, counted, latency_text

if TYPE_CHECKING:
    from tunefarm.bundle.bundle_build import BuiltBundle

bundle = typer.Typer(help="Build models for devices without TVM, and check bundles.", no_args_is_help=True)
_FORMS: Final = get_args(BundleForm)
_COMPILE: Final = {
    "c": "cc -std=c11 -O2 -Wl,--gc-sections -I. -Iruntime model.c kernels/* runtime/*.c -lm -pthread -o self_test",
    "static": "cc -std=c11 -O2 -Wl,--gc-sections -Iinclude self_test.c libmodel.a -lm -pthread -o self_test",
}


@bundle.command()
def build(
    model: ModelArgument,
    output: Annotated[str, typer.Option(help="New folder for the bundle.")],
    target: Annotated[
        str, typer.Option(help="host, host:THREADS, a preset such as raspberry-pi-4, or a TVM target as JSON.")
    ] = "",
    form: Annotated[
        str,
        typer.Option(
            metavar="|".join(_FORMS),
            help="Kernels as C sources or object files; or all of it as an archive or a shared library.",
        ),
    ] = "objects",
    cc: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="C compiler for --form static and library, such as aarch64-linux-gnu-gcc, or zig. "
            "Default: this host's for its own architecture, zig for others.",
        ),
    ] = "",
    entry: Annotated[str | None, typer.Option(metavar="NAME", help="The model's function, if it has several.")] = None,
    shape: ShapeOption = None,
    fresh: FreshOption = False,
    no_timing: Annotated[
        bool, typer.Option("--no-timing", help="Do not time a shared library that runs on this host.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Write a model as kernels, a plan in C, weights, test vectors and a runtime, for a C compiler.

    Functions get the schedules of their records, where the local store has some, and others an untried one.
    """
    from tunefarm.bundle.bundle_build import BundleBuilder
    from tunefarm.frontend.model_import import import_model
    from tunefarm.frontend.model_source import parse_model_source
    from tunefarm.local.machine import LocalMachine
    from tunefarm.local.model_records import records_of
    from tunefarm.options.job_options import output_folder
    from tunefarm.options.model_options import sizes_of_text
    from tunefarm.startup.prestarted_fork_server import take_zygote

    if form not in _FORMS:
        raise BadInput("form", f"{form!r} is not a form of kernels.", f"Give one of: {', '.join(_FORMS)}.")
    folder, source, sizes = (
        output_folder(output),
        parse_model_source(model),
        dict(sizes_of_text(each) for each in shape or ()),
    )
    with LocalMachine(zygote=take_zygote()) as machine:
        complain(f"reading {model}")
        imported = import_model(machine.zygote, source, sizes)
        records = (lambda _tasks, _target, _generator: {}) if fresh else records_of(machine)
        builder = BundleBuilder(machine.zygote, records, complain, is_timed=not no_timing)
        name = source.path.rpartition("/")[2].partition(".")[0]
        chosen = next(each for each in _FORMS if each == form)
        built = builder.build(imported, target, name, chosen, folder, entry, cc)
    _print(built, as_json=as_json)
    return ExitCode.FINE


@bundle.command()
def check(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder written by bundle build.")],
    as_json: AsJson = False,
) -> int:
    """Compare the files of a bundle with its manifest."""
    from tunefarm.bundle.bundle_folder import read_bundle

    manifest, path = read_bundle(folder)
    size_bytes = sum(each.size_bytes for each in manifest.files)
    if as_json:
        print_json({"folder": str(path), "name": manifest.name, "files": len(manifest.files), "size_bytes": size_bytes})
        return ExitCode.FINE
    say(f"{manifest.name}: {counted(len(manifest.files), 'file')}, {bytes_text(size_bytes)}, as its manifest says")
    return ExitCode.FINE


def _print(built: "BuiltBundle", *, as_json: bool) -> None:
    manifest = built.manifest
    if as_json:
        shown = manifest.model_dump(mode="json") | {"folder": str(built.folder), "notes": list(built.notes)}
        print_json(shown | {"problems": dict(built.problems)})
        return
    say_notes(built.notes, built.problems)
    say_kinds(manifest.functions)
    say(
        f"memory of a run: {bytes_text(manifest.weights_bytes)} of weights, {bytes_text(manifest.arena_bytes)} of arena"
    )
    if manifest.requires is not None:
        say(_requires_text(manifest.requires))
    if manifest.latency is not None:
        latency = manifest.latency
        say(f"a run here: {latency_text(latency.p50_s)}, 95% of runs within {latency_text(latency.p95_s)}")
    if manifest.form == "library":
        say(f"{built.folder}: {counted(len(manifest.vectors), 'test vector')}; load model.so (tunefarm_bundle.h)")
        return
    say(f"{built.folder}: {counted(len(manifest.vectors), 'test vector')}; build and run its self-test there:")
    say(f"  {_COMPILE['static' if manifest.form == 'static' else 'c']}")
    say("  ./self_test .")


def _requires_text(requires: BundleRequirements) -> str:
    needed = (requires.architecture, requires.libc, *requires.cpu_features)
    return f"requires: {', '.join(each for each in needed if each)}"
