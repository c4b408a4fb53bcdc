"""Publications of a release repository, as the API answers them."""

from pydantic import BaseModel, ConfigDict


class FileArrival(BaseModel):
    """How much of a file has arrived."""

    model_config = ConfigDict(frozen=True)

    digest: str
    size_bytes: int
    received_bytes: int
    is_complete: bool


class FileArrivals(BaseModel):
    """How much of each file has arrived."""

    model_config = ConfigDict(frozen=True)

    files: tuple[FileArrival, ...]


class Published(BaseModel):
    """What devices see now. ``changes`` is empty if they saw it before."""

    model_config = ConfigDict(frozen=True)

    root_version: int
    timestamp_version: int
    changes: str
