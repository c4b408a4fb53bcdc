"""``tunefarm compile``: compiles a model without a trial."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tunefarm.frontend.model_source import parse_model_source
from tunefarm.options.job_options import output_folder
from tunefarm.options.model_options import ModelOptions
from tunefarm.startup.prestarted_fork_server import take_zygote
from tunefarm.terminal.console import complain, say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next, trying
from tunefarm.terminal.quantities import bytes_text, counted, latency_text
from tunefarm.terminal.tables import print_json

if TYPE_CHECKING:
    from tunefarm.model.compilation import Compilation


def compile_model(
    model: Annotated[
        str,
        typer.Argument(help="A .pt2, .onnx, .tflite, StableHLO or TVM JSON file, or FILE.py:NAME.", metavar="MODEL"),
    ],
    output: Annotated[str, typer.Option(help="Folder for the compiled model.")],
    target: Annotated[
        str, typer.Option(help="host, host:THREADS, a preset such as x86-64-v3, or a TVM target as JSON.")
    ] = "",
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=N,N,...", help="Sizes of an input with dynamic dimensions. Repeatable."),
    ] = None,
    functions: Annotated[
        str | None, typer.Option(metavar="FILE.py", help="Registers the external functions that the model calls.")
    ] = None,
    traced: Annotated[bool, typer.Option("--traced", help="Trace a torch module with torch.fx.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ignore existing records.")] = False,
    verify: Annotated[bool, typer.Option(help="Run the compiled model, and compare it where that is quick.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Compile a model for this machine or another CPU, without measuring anything.

    Functions get the schedules of their records, where the local store has some, and others an untried one.
    """
    from tunefarm.frontend.model_import import import_model
    from tunefarm.local.machine import LocalMachine
    from tunefarm.local.model_records import records_of
    from tunefarm.model.compilation import ModelCompiler

    folder, source = output_folder(output), parse_model_source(model)
    options = ModelOptions.of_texts(shape, functions, traced=traced)
    with LocalMachine(zygote=take_zygote()) as machine:
        complain(f"reading {model}")
        imported = import_model(machine.zygote, source, options.shapes, traced=traced)
        compiler = ModelCompiler(
            machine.zygote,
            folder,
            records=(lambda _tasks, _target, _generator: {}) if fresh else records_of(machine),
            functions_file=options.functions_file,
            is_verified=verify,
            say=complain,
        )
        compilation = compiler.compile(imported, target, Path(source.path).stem)
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
                "problems": dict(compilation.problems),
                "notes": list(compilation.notes),
            }
        )
        return
    for note in compilation.notes:
        say(note)
    for name, problem in compilation.problems.items():
        say(f"{name}: its schedule does not apply: {problem}")
    for stage in compilation.stages:
        say(f"{stage.took_s:7.1f} s  {stage.name}")
    kinds = Counter(each.kind for each in manifest.functions)
    say(f"{counted(len(manifest.functions), 'function')}: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}")
    say(f"{compilation.folder}: {bytes_text(compilation.size_bytes)}")
    if compilation.latency_s is not None:
        say(f"{latency_text(compilation.latency_s)} a run on random inputs")
    say(_verified_text(compilation))
    tell_next(trying(compilation.folder))


def _verified_text(compilation: "Compilation") -> str:
    verified = compilation.manifest.verified
    if verified is None:
        return "not compared: the unscheduled build would run too long, or --no-verify was given"
    against = "the framework" if verified.reference == "framework" else "an unscheduled build"
    error = f"its worst error is {verified.worst_error:.3g} times what is allowed"
    return f"equal to {against} on {counted(verified.input_sets, 'set')} of inputs: {error}"
