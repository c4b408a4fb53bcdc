"""The list of tuning records."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.record import RecordStatus
from tunefarm_services.dashboard.parts import parts_of
from tunefarm_services.dashboard.refusal import PageProblem
from tunefarm_services.dashboard.rendering import page
from tunefarm_services.dashboard.session import require_viewer

RECORDS_ON_PAGE: Final = 50


def show_records(request: Request) -> Response:
    """Records by status and by pages."""
    viewer, parts = require_viewer(request, Scope.RECORDS_READ), parts_of(request)
    status_text = request.query_params.get("status", "")
    if status_text not in {"", *RecordStatus}:
        raise PageProblem(400, f"There is no status {status_text[:50]!r}.")
    status = RecordStatus(status_text) if status_text else None
    after = request.query_params.get("after") or None
    found = parts.store.records.page(viewer.tenant, status=status, after=after, limit=RECORDS_ON_PAGE + 1)
    rows = found[:RECORDS_ON_PAGE]
    names = {each: parts.store.workloads.get(viewer.tenant, each).name for each in {r.key.workload_id for r in rows}}
    values = {"records": rows, "names": names, "status": status_text, "statuses": [each.value for each in RecordStatus]}
    next_after = rows[-1].record_id if len(found) > RECORDS_ON_PAGE else None
    return page(request, "records.html", values | {"after": after, "next_after": next_after})


ROUTES: Final = (Route("/records", show_records, methods=["GET"]),)
