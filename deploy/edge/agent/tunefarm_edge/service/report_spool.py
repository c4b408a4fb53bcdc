"""Reports on disk until the service has them: bounded, in order, each sent until it is acknowledged."""

import secrets
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from tunefarm_edge.service.edge_service import EdgeService
from tunefarm_edge.state.edge_root import EdgeRoot
from tunefarm_edge.state.floor import write_time
from tunefarm_edge.trust.http_source import RequestRejected
from tunefarm_schemas.edge.report import (
    MAX_DROPPED,
    EdgeReport,
    EdgeReports,
    InstallReport,
    LatencyReport,
    SelfTestReport,
)

AT_ONCE = 200
_UNREADABLE = (400, 413, 422)
"""Answers after which the same reports would be rejected again."""


class ReportSpool:
    """A file for each report. With ``limit`` files, the oldest latencies are dropped, then the oldest others."""

    def __init__(self, root: EdgeRoot, limit: int) -> None:
        self._root, self._limit = root, limit

    def put(self, body: InstallReport | SelfTestReport | LatencyReport, report_id: str | None = None) -> None:
        """Keep a report. One with an id that is there already is the same report."""
        if report_id and list(self._root.reports.glob(f"*-{report_id}.json")):
            return
        report = EdgeReport(report_id=report_id or secrets.token_hex(16), at=write_time(datetime.now(UTC)), body=body)
        self._make_room()
        name = f"{self._next():012d}-{body.kind}-{report.report_id}.json"
        self._root.disk.replace_file(self._root.reports / name, report.model_dump_json().encode())

    def waiting(self) -> list[Path]:
        """The files of all reports, oldest first."""
        return sorted(self._root.reports.glob("[0-9]*.json"))

    @property
    def dropped(self) -> int:
        """How many reports were dropped since the last ones were sent."""
        path = self._root.reports / "dropped"
        return int(path.read_text() or 0) if path.exists() else 0

    def _next(self) -> int:
        files = self.waiting()
        return int(files[-1].name.partition("-")[0]) + 1 if files else 0

    def _make_room(self) -> None:
        files = self.waiting()
        while len(files) >= self._limit:
            oldest = next((path for path in files if "-latency-" in path.name), files[0])
            files.remove(oldest)
            self._drop(oldest)

    def _drop(self, path: Path) -> None:
        self._root.disk.replace_file(self._root.reports / "dropped", str(self.dropped + 1).encode())
        self._root.disk.remove(path)

    def send(self, service: EdgeService) -> int:
        """Send what waits; returns how many the service took.

        Raises:
            Refused: the service cannot be reached; the reports stay.
        """
        sent = 0
        while files := self.waiting()[:AT_ONCE]:
            known = {path: report for path in files if (report := self._read(path))}
            if known:
                sent += self._hand_over(service, known)
        return sent

    def _hand_over(self, service: EdgeService, reports: dict[Path, EdgeReport]) -> int:
        """Send reports at once, and in halves if the service cannot read them: only those it cannot read are lost."""
        dropped = min(self.dropped, MAX_DROPPED)
        try:
            service.report(EdgeReports(reports=tuple(reports.values()), dropped=dropped))
        except RequestRejected as rejected:
            if rejected.status not in _UNREADABLE:
                raise
            if len(reports) > 1:
                paths, half = list(reports), len(reports) // 2
                halves = paths[:half], paths[half:]
                return sum(self._hand_over(service, {path: reports[path] for path in each}) for each in halves)
            self._drop(*reports)
            return 0
        self._root.disk.remove(self._root.reports / "dropped")
        for path in reports:
            self._root.disk.remove(path)
        return len(reports)

    def _read(self, path: Path) -> EdgeReport | None:
        try:
            return EdgeReport.model_validate_json(path.read_bytes())
        except ValidationError:
            self._drop(path)
            return None
