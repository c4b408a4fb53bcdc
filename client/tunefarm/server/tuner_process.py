"""A tuner process: its store, its fork server, and a local or remote farm."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import structlog

from tunefarm.options.required_confinement import require_confinement
from tunefarm.server.bundle_builds import BundleBuilds
from tunefarm.startup.fork_servers import start_fork_server, start_search_fork_server
from tunefarm.startup.installation import open_store, private_folder
from tunefarm.startup.scratch_folder import ScratchFolder
from tunefarm_sandbox.fork_server.fork_server import Child, ForkFailed
from tunefarm_services.store import Store
from tunefarm_services.telemetry.telemetry import Telemetry
from tunefarm_services.tuner.service.fork_servers import ForkServers
from tunefarm_services.tuner.service.leased_job import FarmSource
from tunefarm_services.tuner.service.owner import owner_name
from tunefarm_services.tuner.service.service import TunerService
from tunefarm_services.tuner.service.settings import TunerSettings

ZIG_CACHES: Final = "zig-caches"

log = structlog.get_logger()


def run_tuner(settings: TunerSettings, telemetry: Telemetry, stop: threading.Event) -> None:
    """Process jobs until ``stop`` is set. Without a broker, measure on this host.

    Raises:
        BadInput, StoreError: a folder, the database or the broker's URL is unusable, or this host would measure but
            cannot confine candidates as the settings require.
    """
    with ExitStack() as parts:
        store = open_store(settings)
        parts.callback(store.close)
        if settings.broker_url is None:
            service = parts.enter_context(_on_this_host(settings, store, telemetry, stop))
        else:
            service = parts.enter_context(_on_workers(settings, store, telemetry, stop))
        log.info("the tuner is ready", owner=service.owner)
        service.run(stop)


@contextmanager
def _on_this_host(
    settings: TunerSettings, store: Store, telemetry: Telemetry, stop: threading.Event
) -> Iterator[TunerService]:
    from tunefarm.server.local_farms import LocalFarms

    require_confinement(settings)
    scratch = ScratchFolder.within(private_folder(settings, "scratch"))
    fork_servers = ForkServers(start_fork_server)
    try:
        farms = LocalFarms(store, fork_servers, scratch.path)
        try:
            farms.identify()
        except ForkFailed as error:  # each job retries, and reports why it waits
            log.warning("this host's device is not known yet", reason=str(error))
        one = settings.model_copy(update={"jobs_at_once": 1})
        caches = private_folder(settings, ZIG_CACHES)
        builds = BundleBuilds(store, fork_servers, f"{owner_name()}-bundles", scratch.path, caches)
        with _beside(stop, farms.send_heartbeats), _beside(stop, builds.run):
            yield _service(one, store, farms.farm_for, fork_servers, telemetry, farms.keep_search_child)
    finally:
        fork_servers.close()
        scratch.close()


@contextmanager
def _on_workers(
    settings: TunerSettings, store: Store, telemetry: Telemetry, stop: threading.Event
) -> Iterator[TunerService]:
    from tunefarm_services.tuner.farm.broker_farms import BrokerFarms

    assert settings.broker_url is not None
    scratch = ScratchFolder.within(private_folder(settings, "scratch"))
    fork_servers, builders = ForkServers(start_search_fork_server), ForkServers(start_fork_server)
    fork_servers.present()  # loads in the background
    try:
        broker_url = settings.broker_url.get_secret_value()
        farms = BrokerFarms(store, broker_url, settings.blobs(), settings.broker_prefix)
        caches = private_folder(settings, ZIG_CACHES)
        builds = BundleBuilds(store, builders, f"{owner_name()}-bundles", scratch.path, caches)
        with _beside(stop, farms.keep_registry), _beside(stop, builds.run):
            yield _service(settings, store, farms.farm_for, fork_servers, telemetry, lambda _: None)
    finally:
        fork_servers.close()
        builders.close()
        scratch.close()


def _service(
    settings: TunerSettings,
    store: Store,
    farm_for: FarmSource,
    fork_servers: ForkServers,
    telemetry: Telemetry,
    on_search_child: Callable[[Child | None], None],
) -> TunerService:
    return TunerService(store, farm_for, fork_servers, settings, telemetry=telemetry, on_search_child=on_search_child)


@contextmanager
def _beside(stop: threading.Event, work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run ``work`` in a thread inside the block, then set ``stop`` and wait for the thread."""
    thread = threading.Thread(target=work, args=(stop,), name=work.__qualname__, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(2.0)
