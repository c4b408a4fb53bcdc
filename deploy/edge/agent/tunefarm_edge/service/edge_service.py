"""What a device asks its service."""

from typing import cast

from tunefarm_edge.trust.http_source import HttpSource
from tunefarm_schemas.edge.device import EdgeAdvice, EdgePoll, Enrolment, EnrolmentRequest
from tunefarm_schemas.edge.report import EdgeReports


class EdgeService:
    """Requests of a device, each of which raises ``Refused`` if the service cannot be reached."""

    def __init__(self, source: HttpSource) -> None:
        self.source = source

    def enrol(self, request: EnrolmentRequest) -> Enrolment:
        """Exchange a one-time code for a token."""
        return cast("Enrolment", self.source.ask("enrolments", request, Enrolment))

    def poll(self, poll: EdgePoll) -> EdgeAdvice:
        """Ask what to run."""
        return cast("EdgeAdvice", self.source.ask("polls", poll, EdgeAdvice))

    def report(self, reports: EdgeReports) -> None:
        """Hand over reports."""
        self.source.ask("reports", reports, None)
