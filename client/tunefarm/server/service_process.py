"""The whole service in one command: the API, and the tuner in a child that is restarted when it dies."""

import fcntl
import os
import signal
import sys
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn, Self

from tunefarm.server.api_processes import ApiProcesses
from tunefarm.server.api_server import api_server, keep_for_good, serve
from tunefarm.server.connection_files import ConnectionFiles
from tunefarm.server.listening import Listening
from tunefarm.server.tuner_child import TunerChild
from tunefarm.startup.installation import open_store, private_folder
from tunefarm.startup.scratch_folder import ScratchFolder
from tunefarm.terminal.console import say
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings

if TYPE_CHECKING:
    from tunefarm_services.api.settings import ApiSettings


def run_service(settings: Settings, listening: Listening, processes: int, tuner_words: list[str] | None) -> None:
    """Serve until SIGINT or SIGTERM. ``tuner_words`` are the tuner's options; without them no tuner starts.

    Raises:
        BadInput, StoreError: an address, a folder or the database cannot be used.
        KeyboardInterrupt, SystemExit: after SIGINT or SIGTERM, once everything has been released.
    """
    from tunefarm_services.api.application.app import create_app
    from tunefarm_services.telemetry.farm_collector import FarmCollector
    from tunefarm_services.telemetry.fleet_collector import FleetCollector
    from tunefarm_services.telemetry.request_spans import RequestSpans
    from tunefarm_services.telemetry.settings import TelemetrySettings
    from tunefarm_services.telemetry.shared_figures import forget_process, share_figures
    from tunefarm_services.telemetry.telemetry import telemetry_of
    from tunefarm_services.telemetry.traces import configure_traces

    listening.check()
    signal.signal(signal.SIGTERM, _end_in_order)
    with ExitStack() as parts:
        tuner_environment = _tuner_environment()
        if processes > 1:
            figures = ScratchFolder.within(private_folder(settings, "scratch"))
            parts.callback(figures.close)
            share_figures(figures.path)
        # The API serves /metrics itself, and only the processes that answer requests record traces.
        telemetry_settings = TelemetrySettings()
        own = telemetry_settings.model_copy(update={"metrics_listen": None, "traces_endpoint": None})
        telemetry = parts.enter_context(telemetry_of("api", own))
        configure_traces("api", telemetry_settings.traces_endpoint).close()  # fails early if traces are misconfigured
        if tuner_words is not None:
            parts.enter_context(SingleService(settings))
        listener = parts.enter_context(listening.bind())
        store = open_store(settings)
        parts.callback(store.close)
        telemetry.metrics.collect_from(FarmCollector(store.queue, store.lanes))
        telemetry.metrics.collect_from(FleetCollector(store.fleet_overview))
        api_settings = _api_settings(listening)
        app = create_app(store, api_settings, metrics=telemetry.metrics)
        url = listening.url(listener)
        files = None
        if listening.is_loopback:
            files = ConnectionFiles(settings)
            files.leave_token(store.tokens)
            files.leave_address(url)
            parts.callback(files.withdraw_address)
        if tuner_words is not None:
            child = TunerChild(tuner_words, tuner_environment)
            child.start()
            parts.callback(child.end)
        _greet(url, files, with_tuner=tuner_words is not None, with_page=api_settings.public_docs)

        def answer(number: int) -> None:
            app.state.parts.loads_intake_at_once = number == 0
            with ExitStack() as own_parts:
                own_parts.callback(store.close)
                traces = configure_traces("api", telemetry_settings.traces_endpoint)
                own_parts.callback(traces.close)
                serve(api_server(RequestSpans(app, traces), listening, api_settings), listener)

        keep_for_good()
        if processes == 1:
            answer(0)
        else:
            store.close()  # forks must not share connections; each process opens its own
            ApiProcesses(processes, answer, forget_process).run()


def _end_in_order(_number: int, _frame: FrameType | None) -> NoReturn:
    """Treat SIGTERM, which init systems send, like Ctrl-C, so that the cleanup runs."""
    sys.exit(0)


def _tuner_environment() -> dict[str, str]:
    """The tuner's environment: on a terminal it logs only warnings, as text."""
    environment = dict(os.environ)
    if sys.stderr.isatty():
        environment.setdefault("TUNEFARM_LOG_FORMAT", "text")
        environment.setdefault("TUNEFARM_LOG_LEVEL", "warning")
    return environment


def _api_settings(listening: Listening) -> "ApiSettings":
    """The API's settings. A service for this machine only shows the API page by default."""
    from tunefarm_services.api.settings import ApiSettings

    settings = ApiSettings()
    is_of_this_machine = listening.is_loopback and settings.database_url is None
    if is_of_this_machine and "public_docs" not in settings.model_fields_set:
        return settings.model_copy(update={"public_docs": True})
    return settings


def _greet(url: str, files: ConnectionFiles | None, *, with_tuner: bool, with_page: bool) -> None:
    say(f"tunefarm serves at {url}")
    say(f"its pages: {url}/dashboard/, or tunefarm open" if files else f"its pages: {url}/dashboard/")
    if with_page:
        say(f"the API can be tried in a browser: {url}/docs")
    if files is not None:
        say(f"commands on this machine find it by themselves; the token is in {files.token_path}")
        say("next: tunefarm submit builtin:matmul:128x128x128 --wait")
    else:
        say("next: tunefarm token create NAME, then on another machine set TUNEFARM_API_URL and TUNEFARM_API_TOKEN")
    if not with_tuner:
        say("no tuner runs here; start one with: tunefarm tuner")
    sys.stdout.flush()


LOCK_FILE: Final = "serve.lock"


class SingleService:
    """A lock that is held inside the ``with`` block. The kernel releases it when this process dies."""

    def __init__(self, settings: Settings) -> None:
        self._path = private_folder(settings, ".") / LOCK_FILE
        self._descriptor = -1

    def __enter__(self) -> Self:
        """Take the lock. Raises BadInput when another service holds it."""
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            problem = f"tunefarm serve is already running on {self._path.parent}."
            fix = "Stop it, set another TUNEFARM_HOME, or add --no-tuner."
            raise BadInput("TUNEFARM_HOME", problem, fix) from error
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
