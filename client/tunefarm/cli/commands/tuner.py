"""``tunefarm tuner``: a tuner without an API."""

from typing import Annotated

import typer

from tunefarm.cli.exit_code import ExitCode


def tuner(
    jobs_at_once: Annotated[
        int | None, typer.Option(min=1, help="Jobs side by side, where workers measure; this host alone takes one.")
    ] = None,
    parent: Annotated[int | None, typer.Option(hidden=True, help="End with this process.")] = None,
) -> int:
    """Work on jobs from the database until stopped; any number of tuners may run.

    With TUNEFARM_BROKER_URL workers measure, else this host's processor does. Stopping keeps everything measured, and
    gives the jobs to the next tuner.
    """
    from tunefarm.server.parent_watch import die_with

    if parent is not None and not die_with(parent):
        return ExitCode.INTERRUPTED
    import threading

    from tunefarm.cli.interruption import Interruption
    from tunefarm.server.tuner_process import run_tuner
    from tunefarm.startup.one_heap import share_one_heap
    from tunefarm_services.telemetry.telemetry import telemetry_of
    from tunefarm_services.tuner.service.settings import TunerSettings

    share_one_heap()
    settings = TunerSettings()
    if jobs_at_once is not None:
        settings = settings.model_copy(update={"jobs_at_once": jobs_at_once})
    stop = threading.Event()
    with telemetry_of("tuner") as telemetry, Interruption(stop.set, lambda _: None):
        run_tuner(settings, telemetry, stop)
    return ExitCode.FINE
