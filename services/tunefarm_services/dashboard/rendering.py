"""Renders templates, and sends pages with headers that let them load nothing but our own files."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tunefarm_schemas.token import Scope
from tunefarm_schemas.views.jobs.waterfall import predicted_s
from tunefarm_schemas.views.quantities import bytes_text, counted, duration_text, latency_text, ratio_text
from tunefarm_services.dashboard.assets import asset_path
from tunefarm_services.dashboard.session import form_key, viewer_of

_SOURCES: Final = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS: Final = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _SOURCES.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}

_PAGES: Final = (
    (Scope.JOBS_READ, "/", "Overview"),
    (Scope.JOBS_READ, "/jobs", "Jobs"),
    (Scope.RECORDS_READ, "/records", "Records"),
    (Scope.DEVICES_READ, "/devices", "Devices"),
    (Scope.DEVICES_READ, "/releases", "Releases"),
    (Scope.USAGE_READ, "/usage", "Usage"),
    (Scope.TOKENS_ADMIN, "/tokens", "Tokens"),
)
"""The pages that all others link to, with the scopes that they need."""


def navigation(scopes: Collection[Scope]) -> list[tuple[str, str]]:
    """Addresses and labels of the pages that a session with these scopes may see."""
    return [(address, label) for scope, address, label in _PAGES if scope in scopes]


@cache
def environment() -> Environment:
    """The templates, with their filters."""
    templates = Environment(
        loader=PackageLoader("tunefarm_services.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "latency": latency_text,
        "duration": duration_text,
        "bytes": bytes_text,
        "moment": _moment,
        "ago": _ago,
        "short": lambda text: str(text)[:12],
        "sentence": lambda text: text[:1].upper() + text[1:],
        "percent": lambda share: "-" if share is None else f"{100 * share:.3g}%",
    }
    templates.globals |= {"ratio": ratio_text, "counted": counted, "asset": asset_path, "predicted": predicted_s}
    return templates


def fragment(name: str, values: Mapping[str, Any]) -> str:
    """Part of a page."""
    return environment().get_template(name).render(values)


def page(request: Request, name: str, values: Mapping[str, Any], status: int = 200) -> Response:
    """A page for the viewer of ``request``."""
    viewer = viewer_of(request)
    common = {
        "root": request.scope.get("root_path", ""),
        "viewer": viewer,
        "form_key": form_key(request) if viewer is not None else "",
        "path": request.url.path,
        "navigation": [] if viewer is None else navigation(viewer.scopes),
        "may_write": viewer is not None and Scope.JOBS_WRITE in viewer.scopes,
    }
    return HTMLResponse(fragment(name, common | dict(values)), status, headers=HEADERS)


def _moment(text: str | None) -> str:
    return "-" if text is None else datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _ago(text: str | None) -> str:
    """How long ago a moment was, in its largest unit."""
    if text is None:
        return "-"
    seconds = max(0.0, (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds())
    for size_s, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size_s:
            return f"{counted(int(seconds // size_s), unit)} ago"
    return f"{counted(int(seconds), 'second')} ago"
