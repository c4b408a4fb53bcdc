"""What a call is, whoever carries it: requests that are asked for one by one, and what is made of the replies."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import JsonValue

T = TypeVar("T")
V = TypeVar("V", bound=BaseModel)

API: Final = "/v1"
REQUEST_TIMEOUT_S: Final = 60.0


Parameter: TypeAlias = str | int | float | bool | None
Query: TypeAlias = Mapping[str, Parameter | tuple[str, ...]]


class Answer(BaseModel):
    """An answer of the service, or a part of one. What a newer service says besides is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


@dataclass(frozen=True)
class Request:
    """One HTTP request, sent after ``delay_s``.

    ``creates`` gives it an idempotency key, by which sending it twice does it once.
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
        """The query's parameters that have a value, as they are spelt in a URL; several of one name for a tuple."""
        return [
            (name, str(value).lower() if isinstance(value, bool) else str(value))
            for name, values in self.query.items()
            for value in (values if isinstance(values, tuple) else (values,))
            if value is not None
        ]


@dataclass(frozen=True)
class Reply:
    """An answer that is not an error, header names in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def read(self, model: type[V]) -> V:
        """The content as one of ours; what a newer service says besides is ignored.

        Raises:
            BadInput: it is something else.
        """
        with _said_by_a_service():
            return model.model_validate_json(self.content, extra="ignore")

    def read_as(self, adapter: TypeAdapter[T]) -> T:
        """The content as whatever the adapter makes. Raises BadInput as ``read`` does."""
        with _said_by_a_service():
            return adapter.validate_json(self.content)


@contextmanager
def _said_by_a_service() -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        problem = f"what answers there is no tunefarm service, or another version ({error.error_count()} errors)."
        raise BadInput("api", problem, "Look at TUNEFARM_API_URL, and at what stands before the service.") from error


Flow: TypeAlias = Generator[Request, Reply, T]
"""A call: yields requests, is sent their replies, and returns what the caller wanted. An ``ApiError`` is thrown in."""
