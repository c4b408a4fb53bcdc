"""Paginated lists."""

from typing import Final, TypeVar

from pydantic import BaseModel

from tunefarm.http.request import Flow, Query, Reply, Request
from tunefarm_schemas.views.page import Page

V = TypeVar("V", bound=BaseModel)

PAGE: Final = 100


def listed(path: str, model: type[V], query: Query, limit: int | None) -> Flow[list[V]]:
    """Fetch the first ``limit`` items of a list page by page; all if None."""
    found: list[V] = []
    token: str | None = None
    while True:
        size = PAGE if limit is None else min(PAGE, limit - len(found))
        reply: Reply = yield Request("GET", path, query={**query, "page_size": size, "page_token": token})
        page = reply.read(Page[dict[str, object]])
        found += [model.model_validate(item, extra="ignore") for item in page.items]
        token = page.next_page_token
        if not token or (limit is not None and len(found) >= limit):
            return found if limit is None else found[:limit]
