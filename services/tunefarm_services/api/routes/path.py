"""Ids in paths and queries."""

from typing import Annotated, TypeAlias

from fastapi import Path, Query

Id: TypeAlias = Annotated[str, Path(max_length=200, pattern=r"^[A-Za-z0-9._@+=-]+$", description="Its id.")]
"""Without a colon, which introduces a verb."""

IdPrefix: TypeAlias = Annotated[
    str | None, Query(max_length=200, pattern=r"^[0-9a-f]+$", description="Only ids with this prefix.")
]

IdFilter: TypeAlias = Annotated[
    str | None, Query(min_length=1, max_length=200, pattern=r"^[^\x00]+$", description="Only items with this id.")
]
