"""Lists, complete or in pages."""

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """One page of a list. Pass ``next_page_token`` as ``page_token`` for the next page; null on the last."""

    model_config = ConfigDict(frozen=True)

    items: tuple[Item, ...]
    next_page_token: str | None = None
