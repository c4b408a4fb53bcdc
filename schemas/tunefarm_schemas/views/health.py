"""How the process is."""

from pydantic import BaseModel


class Health(BaseModel):
    """Whether the process answers."""

    status: str


class Readiness(BaseModel):
    """Whether requests are answered now. ``intake`` says whether modules can be read yet."""

    ready: bool
    store: str
    intake: str
