"""``tunefarm serve``, ``tunefarm tuner`` and ``tunefarm open``: the service, a tuner without an API, and its pages."""

from pathlib import Path
from typing import Annotated, Final

import typer

from tunefarm.cli.remote_options import Api
from tunefarm.server.listening import DEFAULT_PORT, Listening
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm_schemas.host_cores import usable_processors

MAX_BY_DEFAULT: Final = 4


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 selects a free one.")] = DEFAULT_PORT,
    jobs_at_once: Annotated[
        int | None, typer.Option(min=1, help="Concurrent jobs if workers measure; one if this host measures.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Processes that answer requests. Default: one with a tuner, else one per core, at most four.",
        ),
    ] = None,
    no_tuner: Annotated[bool, typer.Option("--no-tuner", help="Run only the API.")] = False,
    tls_certificate: Annotated[Path | None, typer.Option(help="PEM file of the certificate chain.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file of its private key.")] = None,
    allow_plain_http: Annotated[
        bool, typer.Option("--allow-plain-http", help="Listen beyond this machine without TLS.")
    ] = False,
) -> int:
    """Serve the API and tune the submitted jobs.

    By default everything stays on this machine: SQLite under TUNEFARM_HOME, measurements on this host's processor.
    With TUNEFARM_DATABASE_URL and TUNEFARM_BROKER_URL the same command serves a farm.
    """
    from tunefarm.server.service_process import run_service
    from tunefarm.startup.one_heap import share_one_heap
    from tunefarm_services.settings import Settings

    share_one_heap()
    listening = Listening(host, port, tls_certificate, tls_key, allow_plain_http)
    words = None if no_tuner else ([] if jobs_at_once is None else ["--jobs-at-once", str(jobs_at_once)])
    run_service(Settings(), listening, processes or _fitting(with_tuner=not no_tuner), words)
    return ExitCode.FINE


def open_pages(
    print_link: Annotated[bool, typer.Option("--print", help="Print the link instead of opening a browser.")] = False,
    api: Api = None,
) -> int:
    """Open the pages of the service in a browser, logged in.

    The link works once, within a minute, and begins a session of twelve hours with the permissions of the token that
    this command uses.
    """
    import webbrowser

    from tunefarm.http.page_link import page_link

    link = page_link(api)
    if print_link or not webbrowser.open(link):
        say(link)
    return ExitCode.FINE


def _fitting(*, with_tuner: bool) -> int:
    """One process with a tuner, because search and measurements need the other cores."""
    return 1 if with_tuner else min(usable_processors(), MAX_BY_DEFAULT)


def tuner(
    jobs_at_once: Annotated[
        int | None, typer.Option(min=1, help="Concurrent jobs if workers measure; one if this host measures.")
    ] = None,
    parent: Annotated[int | None, typer.Option(hidden=True, help="End with this process.")] = None,
) -> int:
    """Process jobs from the database until stopped; any number of tuners may run.

    With TUNEFARM_BROKER_URL workers measure, otherwise this host's processor. Stopping keeps all measurements and
    releases the jobs to other tuners.
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
