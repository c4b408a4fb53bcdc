"""One tuning record: what was measured, its code in each form, and what ships. Each tab has an address."""

from collections.abc import Mapping
from typing import Any, Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.token import Scope, Token
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.views.record import CodeForm
from tunefarm_services.dashboard.latency_strip import latency_strip
from tunefarm_services.dashboard.parts import DashboardParts, parts_of
from tunefarm_services.dashboard.refusal import PageProblem
from tunefarm_services.dashboard.rendering import HEADERS, page
from tunefarm_services.dashboard.session import require_viewer
from tunefarm_services.record_views.record_trials import fastest_trials
from tunefarm_services.store import StoreError, StoreUnavailable

MAX_SHOWN_CHARACTERS: Final = 200_000
"""Of a text on the page; the download has all of it."""
JSON: Final = "json"
ARTIFACT: Final = "artifact"
TABS: Final[Mapping[str, str]] = {
    "": "Measurements",
    CodeForm.DIFF.value: "Changes",
    CodeForm.PYTHON.value: "Trace",
    CodeForm.SCHEDULED.value: "Scheduled",
    CodeForm.LOWERED.value: "Lowered",
    CodeForm.ASSEMBLY.value: "Assembly",
    JSON: "Trace as JSON",
    ARTIFACT: "Artifact",
}
FORMS: Final = {each.value: each for each in CodeForm}
OF_ARTIFACTS: Final = frozenset({CodeForm.ASSEMBLY.value, ARTIFACT})
_LINES: Final = (("+++", "file"), ("---", "file"), ("@@", "hunk"), ("+", "added"), ("-", "removed"))


async def show_record(request: Request) -> Response:
    """One record, with the tab that the query names."""
    viewer, parts = require_viewer(request, Scope.RECORDS_READ), parts_of(request)
    shown = request.query_params.get("show", "")
    if shown not in TABS:
        raise PageProblem(400, f"There is no tab {shown[:50]!r}. There are: {', '.join(filter(None, TABS))}.")
    if shown in OF_ARTIFACTS:
        require_viewer(request, Scope.ARTIFACTS_READ)
    values = await to_thread.run_sync(_record_values, request, viewer, parts)
    if shown in FORMS:
        values |= await _code_values(parts, values["record"], FORMS[shown])
    else:
        values |= await to_thread.run_sync(_tab_values, shown, viewer, parts, values["record"])
    may_see = Scope.ARTIFACTS_READ in viewer.scopes
    tabs = {name: title for name, title in TABS.items() if may_see or name not in OF_ARTIFACTS}
    return await to_thread.run_sync(page, request, "record.html", values | {"shown": shown, "tabs": tabs})


async def download_code(request: Request) -> Response:
    """A text of the record's code as a file."""
    viewer, parts = require_viewer(request, Scope.RECORDS_READ), parts_of(request)
    form = FORMS.get(request.path_params["form"])
    if form is None:
        raise PageProblem(404, "There is no such form.")
    if form is CodeForm.ASSEMBLY:
        require_viewer(request, Scope.ARTIFACTS_READ)
    code = await parts.record_code(viewer.tenant, request.path_params["record_id"], form)
    suffix = {CodeForm.PYTHON: "py", CodeForm.DIFF: "diff", CodeForm.ASSEMBLY: "s"}.get(form, "txt")
    return _file(code.text, f"{form.value}.{suffix}", "text/plain")


def download_trace(request: Request) -> Response:
    """The trace as TVM's JSON, as a file."""
    viewer, parts = require_viewer(request, Scope.RECORDS_READ), parts_of(request)
    record = parts.store.records.get(viewer.tenant, request.path_params["record_id"])
    return _file(record.trace.text, "trace.json", "application/json")


def _file(text: str, name: str, media_type: str) -> Response:
    headers = HEADERS | {
        "Content-Disposition": f'attachment; filename="tunefarm-{name}"',
        "X-Content-Type-Options": "nosniff",
    }
    return Response(text.encode("utf-8", "backslashreplace"), headers=headers, media_type=media_type)


def _record_values(request: Request, viewer: Token, parts: DashboardParts) -> dict[str, Any]:
    record = parts.store.records.get(viewer.tenant, request.path_params["record_id"])
    return {"record": record, "workload": parts.store.workloads.get(viewer.tenant, record.key.workload_id)}


def _tab_values(shown: str, viewer: Token, parts: DashboardParts, record: TuningRecord) -> dict[str, Any]:
    if shown == JSON:
        text = record.trace.text
        return {"text": text[:MAX_SHOWN_CHARACTERS], "is_cut": len(text) > MAX_SHOWN_CHARACTERS}
    if shown == ARTIFACT:
        return {"artifacts": parts.store.artifacts.newest_first(viewer.tenant, record.record_id)}
    may_see = Scope.DEVICES_READ in viewer.scopes
    found = fastest_trials(parts.store.points, parts.store.trials, record)
    return {
        "trials": found.trials,
        "strip": latency_strip(found),
        "field": parts.record_field(viewer.tenant, record.record_id) if may_see else None,
    }


async def _code_values(parts: DashboardParts, record: TuningRecord, form: CodeForm) -> dict[str, Any]:
    """The text, or why there is none: the rest of the page stands."""
    try:
        code = await parts.record_code(record.tenant, record.record_id, form)
    except StoreUnavailable:
        raise
    except BadInput as refusal:
        return {"code": None, "problem": f"{refusal.problem} {refusal.fix}"}
    except (PageProblem, StoreError) as problem:
        return {"code": None, "problem": str(problem)}
    text = code.text[:MAX_SHOWN_CHARACTERS]
    lines = [(_kind(line), line) for line in text.splitlines()] if form is CodeForm.DIFF else []
    is_cut = code.is_truncated or len(code.text) > len(text)
    return {"code": code, "problem": "", "text": text, "lines": lines, "is_cut": is_cut}


def _kind(line: str) -> str:
    """The class of a line of a diff."""
    return next((kind for start, kind in _LINES if line.startswith(start)), "same")


ROUTES: Final = (
    Route("/records/{record_id}", show_record, methods=["GET"]),
    Route("/records/{record_id}/code/{form}", download_code, methods=["GET"]),
    Route("/records/{record_id}/trace", download_trace, methods=["GET"]),
)
