"""Browsers that are logged in, and what they complain about."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from tests.servers.real_service import HANGING_S, RealService
from tunefarm_schemas.token import Scope
from tunefarm_services.store import Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


@dataclass(frozen=True)
class View:
    """A window and the colours that its user prefers."""

    width: int
    height: int
    scheme: Literal["light", "dark"]


WIDE: Final = View(1280, 900, "light")
NARROW: Final = View(390, 844, "dark")
VIEWS: Final = {"wide": WIDE, "narrow": NARROW}
SESSION_S: Final = 3600.0
LOST_CONNECTION: Final = ("net::ERR_", "htmx:sendError", "htmx:afterRequest")
"""Parts of what the browser and htmx print of a request that was not answered."""


@dataclass
class Visits:
    """The browsers of one test. Whatever a page prints to its console, or asks in a dialogue, fails the test."""

    browser: "Browser"
    service: RealService
    store: Store
    problems: list[str] = field(default_factory=list)
    contexts: "list[BrowserContext]" = field(default_factory=list)

    def page(
        self,
        tenant: str | None = "local",
        view: View = WIDE,
        *,
        scopes: Iterable[Scope] = tuple(Scope),
        has_scripts: bool = True,
        checks_policy: bool = True,
    ) -> "Page":
        """A page in a browser of its own, logged in as a user of ``tenant``, or not at all."""
        context = self.browser.new_context(
            viewport={"width": view.width, "height": view.height},
            color_scheme=view.scheme,
            reduced_motion="reduce",
            java_script_enabled=has_scripts,
            bypass_csp=not checks_policy,
        )
        self.contexts.append(context)
        if tenant is not None:
            self.log_in(context, tenant, scopes)
        page = context.new_page()
        page.set_default_timeout(HANGING_S * 1000)
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: self.problems.append(f"a dialogue: {dialog.message}"))
        return page

    def log_in(self, context: "BrowserContext", tenant: str, scopes: Iterable[Scope] = tuple(Scope)) -> str:
        """Give the browser a session; returns the id of the token that it was made of."""
        token, text = self.store.tokens.create(tenant, "test", tuple(scopes))
        session = self.store.tokens.open_session(text, SESSION_S, "browser session")
        assert session is not None
        cookie = {"name": f"tunefarm_session_{self.service.port}", "value": session, "httpOnly": True}
        context.add_cookies([cookie | {"domain": "127.0.0.1", "path": "/dashboard", "sameSite": "Lax"}])  # type: ignore[list-item]
        return token.token_id

    def address(self, path: str) -> str:
        return f"{self.service.url}/dashboard{path}"

    def close(self) -> None:
        for context in self.contexts:
            context.close()
        assert not self.problems, self.problems

    def forget_lost_connections(self) -> None:
        """Forget what the browser and htmx say of requests that a killed API did not answer."""
        self.problems[:] = [each for each in self.problems if not any(sign in each for sign in LOST_CONNECTION)]

    def _note(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.problems.append(text)


def violations(page: "Page") -> list[str]:
    """What axe-core finds on a page, among it the size of targets, which WCAG 2.2 asks for."""
    from axe_playwright_python.sync_playwright import Axe

    options = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{each['id']}: {node['html'][:300]}" for each in found for node in each["nodes"]]


def faults_of(page: "Page") -> list[str]:
    """What axe-core finds on a page, and whether the page is wider than its window."""
    too_wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    return [*violations(page), *(["wider than the window"] if too_wide else [])]


def wait_until(page: "Page", condition: Callable[[], bool]) -> None:
    """Wait in Python: the pages' policy keeps the browser from evaluating conditions given as text."""
    deadline = time.monotonic() + HANGING_S
    while not condition():
        assert time.monotonic() < deadline, page.inner_text("main")
        page.wait_for_timeout(50)
