"""Health of the process."""

from pydantic import BaseModel


class Health(BaseModel):
    """Whether the process answers."""

    status: str


class Readiness(BaseModel):
    """Whether requests are accepted now. ``intake`` states whether modules can already be read."""

    ready: bool
    store: str
    intake: str
