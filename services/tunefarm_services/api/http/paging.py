"""Paginated lists, with tokens for the start of the next page."""

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, TypeAlias, TypeVar

from fastapi import Query
from pydantic import BaseModel

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import canonical_json, digest
from tunefarm_schemas.views.page import Page

Item = TypeVar("Item")
View = TypeVar("View", bound=BaseModel)

LARGEST_PAGE: Final = 500
CHECK_CHARACTERS: Final = 16

PageSize: TypeAlias = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="Maximum number of items of one page.")]
PageToken: TypeAlias = Annotated[
    str | None, Query(max_length=2000, description="``next_page_token`` of the previous page, with the same filters.")
]
DEFAULT_SIZE: Final = 50


class Paging:
    """A position in a list. The token contains a checksum over the list's name and its filters.

    It is only ever compared with ids of the caller's own tenant, so it is checked but not secret.
    """

    def __init__(self, name: str, size: int, token: str | None, filters: Mapping[str, object] | None = None) -> None:
        """Raises BadInput for a token of another list, or an invalid one."""
        self.size = size
        self._of = digest(canonical_json([name, {k: str(v) for k, v in (filters or {}).items() if v is not None}]))
        self.after = None if token is None else self._read(token)

    def page(self, found: Sequence[Item], cursor: Callable[[Item], str], view: Callable[[Item], View]) -> Page[View]:
        """The page at the start of ``found``, which has one item more than the page if another page follows."""
        shown = found[: self.size]
        more = len(found) > self.size
        next_token = self.token(cursor(shown[-1])) if more and shown else None
        return Page.model_construct(items=tuple(view(item) for item in shown), next_page_token=next_token)

    def page_of_all(self, found: Sequence[Item], view: Callable[[Item], View]) -> Page[View]:
        """The page of a list that is completely known, in its own order."""
        after = self.number_after()
        begin = 0 if after is None else after + 1
        numbered = list(enumerate(found))[begin : begin + self.size + 1]
        return self.page(numbered, lambda each: str(each[0]), lambda each: view(each[1]))

    def token(self, after: str) -> str:
        """The token of the page that begins after ``after``."""
        text = canonical_json([after, self._check(after)])
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def number_after(self) -> int | None:
        """``after`` as a number, for lists in numeric order. Raises BadInput."""
        if self.after is None:
            return None
        if not (self.after.isascii() and self.after.isdigit() and len(self.after) < 18):
            raise _refused()
        return int(self.after)

    def _check(self, after: str) -> str:
        return digest(f"{self._of} {after}")[:CHECK_CHARACTERS]

    def _read(self, token: str) -> str:
        try:
            padded = token.encode("ascii") + b"=" * (-len(token) % 4)
            after, check = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
            is_ours = isinstance(after, str) and check == self._check(after)
        except (ValueError, TypeError, binascii.Error, RecursionError) as error:  # including half a surrogate pair
            raise _refused() from error
        if not is_ours:
            raise _refused()
        return str(after)


def _refused() -> BadInput:
    fix = "Pass next_page_token of the last page unchanged, with the same filters, or omit it."
    return BadInput("page_token", "It is not a token of this list.", fix)
