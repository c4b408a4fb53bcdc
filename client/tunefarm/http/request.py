"""The description of a call, independent of the transport: a generator that yields requests and receives replies."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import JsonValue

T = TypeVar("T")
V = TypeVar("V", bound=BaseModel)

API: Final = "/v1"
REQUEST_TIMEOUT_S: Final = 60.0


Parameter: TypeAlias = str | int | float | bool | None
Query: TypeAlias = Mapping[str, Parameter | tuple[str, ...]]


class Answer(BaseModel):
    """A response of the service, or a part of one. Unknown fields of a newer service are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


@dataclass(frozen=True)
class Request:
    """One HTTP request, sent after ``delay_s``.

    ``creates`` adds an idempotency key, so that a retry has no second effect.
    """

    method: str
    path: str
    query: Query = field(default_factory=dict)
    body: JsonValue = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    creates: bool = False
    timeout_s: float = REQUEST_TIMEOUT_S
    delay_s: float = 0.0

    @property
    def parameters(self) -> list[tuple[str, Parameter]]:
        """The query parameters that have a value, formatted for a URL; a tuple yields one parameter per item."""
        return [
            (name, str(value).lower() if isinstance(value, bool) else str(value))
            for name, values in self.query.items()
            for value in (values if isinstance(values, tuple) else (values,))
            if value is not None
        ]


@dataclass(frozen=True)
class Reply:
    """A successful response, with header names in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def read(self, model: type[V]) -> V:
        """Parse the content as ``model``. Unknown fields of a newer service are ignored.

        Raises:
            BadInput: the content does not match.
        """
        try:
            return model.model_validate_json(self.content, extra="ignore")
        except ValidationError as error:
            problem = f"the server is not a tunefarm service, or has another version ({error.error_count()} errors)."
            raise BadInput("api", problem, "Check TUNEFARM_API_URL, and any proxy in front of the service.") from error


Flow: TypeAlias = Generator[Request, Reply, T]
"""A call: yields requests, receives their replies, and returns the result. Transports throw an ``ApiError`` into it."""
