"""The API over a store that a benchmark fills and writes to."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.service.service_process import ServiceProcess
from benchmarks.store.synthetic_records import TENANT
from tunefarm_schemas.token import Scope
from tunefarm_services.settings import Settings
from tunefarm_services.store import Store

_SESSION_S: Final = 8 * 3600.0


@dataclass(frozen=True)
class ServedStore:
    """A store, and the service over it. No tuner runs."""

    settings: Settings
    store: Store
    service: ServiceProcess

    def cookies(self, tenant: str = TENANT) -> dict[str, str]:
        """The cookie of a new session of a user who may read everything of a tenant."""
        _, text = self.store.tokens.create(tenant, "viewer", tuple(Scope))
        session = self.store.tokens.open_session(text, _SESSION_S, "browser session")
        assert session is not None
        return {f"tunefarm_session_{self.service.url.rpartition(':')[2]}": session}

    def cookie(self, tenant: str = TENANT) -> dict[str, str]:
        """The same as Playwright takes it."""
        ((name, value),) = self.cookies(tenant).items()
        return {"name": name, "value": value}

    def address(self, path: str) -> str:
        """The address of a page."""
        return f"{self.service.url}/dashboard{path}"


@contextmanager
def served_store(home: Path) -> Iterator[ServedStore]:
    """The store below ``home``, served; call ``service.start`` when it is filled."""
    settings = Settings(home=home)
    store = Store.open(settings.database(), settings.blobs(), busy_timeout_s=60.0)
    service = ServiceProcess(home, ["--no-tuner"])
    try:
        yield ServedStore(settings, store, service)
    finally:
        service.stop()
        store.close()
