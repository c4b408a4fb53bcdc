"""``tunefarm artifact``: from a record to a library, and a library on trial."""

from typing import Annotated

import typer

from tunefarm.exit_code import ExitCode
from tunefarm.quantities import latency_text
from tunefarm.tables import print_json

artifact = typer.Typer(help="From a record to a library, and a library on trial.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@artifact.command()
def build(
    record_id: Annotated[str, typer.Argument(metavar="RECORD", help="Id of a record, or its first characters.")],
    output: Annotated[str, typer.Option(help="Folder for the library and its manifest.")],
    as_json: AsJson = False,
) -> int:
    """Write the library of a record, the very one that was measured, with its manifest."""
    from tunefarm.artifact_folder import write_artifact
    from tunefarm.job_options import output_folder
    from tunefarm.machine import Machine
    from tunefarm.record_queries import named_record, stored_artifact

    folder = output_folder(output)
    with Machine() as machine:
        manifest, library = stored_artifact(machine.store, named_record(machine.store, record_id))
    path = write_artifact(folder, manifest, library)
    if as_json:
        print_json({"artifact_id": manifest.artifact_id, "library": str(path)})
    else:
        print(f"{path}\n{path.parent / 'manifest.json'}")
    return ExitCode.FINE


@artifact.command()
def run(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder that artifact build or tune --output wrote.")],
    as_json: AsJson = False,
) -> int:
    """Check an artifact's digest, load it in a fresh process, and time it."""
    from tunefarm.artifact_folder import read_artifact
    from tunefarm.artifact_trial import try_artifact

    manifest, _, place = read_artifact(folder)
    trial = try_artifact(place)
    if as_json:
        print_json(trial.model_dump(mode="json"))
        return ExitCode.FINE
    print(
        f"{manifest.workload_name}: {latency_text(trial.latency_s)} here, {latency_text(manifest.latency_s)} recorded"
    )
    return ExitCode.FINE
