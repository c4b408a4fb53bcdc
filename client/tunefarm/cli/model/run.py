"""Runs a compiled model for ``tunefarm artifact run``."""

import os
from collections.abc import Sequence

from tunefarm.intake.module_source import readable_file
from tunefarm.model.model_folder import read_model_folder
from tunefarm.model.model_run import run_model
from tunefarm.startup.fork_servers import start_fork_server
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import loading_model, tell_next
from tunefarm.terminal.tables import print_json
from tunefarm_schemas.views.quantities import latency_text


def run_model_folder(folder: str, callees: Sequence[str], functions: str | None, *, as_json: bool) -> int:
    """Check and time a compiled model on random inputs.

    ``functions`` is the path of a Python file that registers the external functions that the model calls.
    """
    own = None if functions is None else readable_file("functions", functions, fix="Give a Python file.")
    files = read_model_folder(folder, callees if own is None else None)
    os.close(files.weights)
    with start_fork_server() as fork_server:
        compared = run_model(fork_server, files.folder, files.library, None, callees, own)
    if as_json:
        regions = [region.model_dump(mode="json") for region in files.manifest.regions]
        times = {"latency_s": compared.latency_s, "cold_latency_s": compared.cold_latency_s}
        print_json({**times, "entries": [each.name for each in files.manifest.entries], "regions": regions})
        return ExitCode.FINE
    manifest = files.manifest
    text = f"{latency_text(compared.latency_s)} a run of {manifest.entries[0].name} on random inputs"
    say(f"{manifest.name}: {text}, {latency_text(compared.cold_latency_s)} with cold caches")
    tell_next(loading_model(files.folder))
    return ExitCode.FINE
