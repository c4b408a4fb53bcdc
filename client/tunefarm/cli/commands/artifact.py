"""``tunefarm artifact``: write the library of a record, and check a library."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tunefarm.cli.model.bundle import print_built, print_manifest
from tunefarm.cli.model.bundle_request import (
    FORMS,
    BundleRequest,
    CompilerOption,
    FunctionsOnlyOption,
    ModelOption,
    NoTimingOption,
    SourceArgument,
    TargetOption,
    built_here,
    built_there,
    form_of_text,
)
from tunefarm.cli.model.model_arguments import ShapeOption
from tunefarm.cli.remote_options import Api, AsJson, Remote
from tunefarm.http.service_address import is_service_named
from tunefarm.terminal.console import complain, say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import loading, tell_next, trying
from tunefarm.terminal.tables import print_json
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.views.quantities import latency_text

if TYPE_CHECKING:
    from tunefarm.artifact.artifact_trial import ArtifactTrial

artifact = typer.Typer(help="Write the library of a record, and check a library.", no_args_is_help=True)

Callees = Annotated[
    list[str],
    typer.Option("--callee", metavar="NAME", help="An external function that the library may call. Repeatable."),
]


@artifact.command()
def build(
    source: SourceArgument,
    output: Annotated[str, typer.Option(help="Folder for the result.")],
    form: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(FORMS),
            help="Build a bundle for devices without TVM, as bundle build does. Default: the measured library.",
        ),
    ] = None,
    target: TargetOption = "",
    cc: CompilerOption = "",
    no_timing: NoTimingOption = False,
    model: ModelOption = None,
    functions_only: FunctionsOnlyOption = False,
    shape: ShapeOption = None,
    api: Api = None,
    remote: Remote = False,
    callee: Callees = [],  # noqa: B006 - typer copies it
    device_code: Annotated[
        bool, typer.Option("--device-code", help="Allow GPU code, whose host part looks up functions by name.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Write the measured library of a record, with its manifest and its function.

    With --form, write a bundle of a model, of a job, or of records. A service builds those of its jobs and records.
    """
    if form is not None:
        request = BundleRequest(
            source,
            target,
            form_of_text(form),
            cc,
            is_timed=not no_timing,
            job_model=model,
            functions_only=functions_only,
        )
        if remote or is_service_named(api):
            print_manifest(built_there(request, output, api, shape or ()), Path(output), as_json=as_json)
        else:
            print_built(built_here(request, output, shape=shape or ()), as_json=as_json)
        return ExitCode.FINE
    from tunefarm.options.job_options import output_folder
    from tunefarm.records.place_choice import record_place
    from tunefarm_schemas.kernel_library.rules import LibraryRules

    if model is not None or functions_only or shape:
        raise BadInput("form", "--model, --functions-only and --shape are for bundles.", "Add --form, or omit them.")
    record_id = _only_record(source, target, cc)
    folder = output_folder(output)
    rules = LibraryRules(callees=tuple(callee), may_hold_device_code=device_code)
    with record_place(api, remote=remote) as place:
        artifact_id, path = place.write_artifact(place.named(record_id), folder, rules)
    if as_json:
        print_json({"artifact_id": artifact_id, "library": str(path)})
    else:
        say(f"{path}\n{path.parent / 'manifest.json'}")
        tell_next(trying(path.parent))
    return ExitCode.FINE


@artifact.command()
def run(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder written by artifact build or tune --output.")],
    callee: Callees = [],  # noqa: B006 - typer copies it
    functions: Annotated[
        str | None, typer.Option(metavar="FILE.py", help="Registers the external functions that a model calls.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check an artifact's library, compare its outputs with the untuned function's, and time it.

    A compiled model is checked and timed.
    """
    from tunefarm.artifact.artifact_folder import library_name, read_artifact, read_workload
    from tunefarm.artifact.artifact_trial import try_and_compare, try_artifact
    from tunefarm.cli.model.run import run_model_folder
    from tunefarm.model.model_folder import is_model
    from tunefarm_services.telemetry.logs import warn_on_standard_error

    warn_on_standard_error()
    if is_model(folder):
        return run_model_folder(folder, callee, functions, as_json=as_json)
    manifest, library, place = read_artifact(folder, callee)
    module_json = read_workload(place, manifest)
    if module_json is None:
        trial = try_artifact(place, library, callee)
    else:
        trial = try_and_compare(manifest, place / library_name(manifest), module_json, callee)
    if trial.is_wrong:
        complain(f"tunefarm: the library is wrong: {_error_text(trial)}; do not ship it.")
        if not as_json:
            reason = "artifact run found it wrong"
            tell_next(f"tunefarm records retract {shlex.quote(manifest.record_id)} --reason {shlex.quote(reason)}")
        return ExitCode.NO_VALID_KERNEL
    if as_json:
        print_json(trial.model_dump(mode="json"))
        return ExitCode.FINE
    say(f"{manifest.workload_name}: {latency_text(trial.latency_s)} here, {latency_text(manifest.latency_s)} recorded")
    if trial.worst_error is None:
        say("not compared: the folder contains no workload.json")
    else:
        say(f"correct: {_error_text(trial)}")
    tell_next(loading(manifest, place / library_name(manifest)))
    return ExitCode.FINE


def _only_record(source: list[str], target: str, cc: str) -> str:
    """Ids have no dots; names of files do."""
    if "." in source[0]:
        fix = f"Run: tunefarm bundle build {shlex.quote(source[0])} --output DIR, or tunefarm compile."
        raise BadInput("record", f"{source[0]!r} is not the id of a record.", fix)
    if len(source) > 1 or target or cc:
        problem = "several sources, --target and --cc are for bundles."
        raise BadInput("source", problem, "Give the id of one record, or add --form library.")
    return source[0]


def _error_text(trial: "ArtifactTrial") -> str:
    return f"its worst error is {trial.worst_error:.3g} times what is allowed"
