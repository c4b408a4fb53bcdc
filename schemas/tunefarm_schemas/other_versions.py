"""Reading of values that another version of tunefarm sent."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)


def read_known(model: type[M], unknown: Mapping[str, object], data: Mapping[str, object]) -> M:
    """Read a ``model`` from ``data``, whose further fields are ignored.

    Fields that are missing, null or of another type are as in ``unknown``, or have their defaults.
    """
    known = {name: value for name, value in data.items() if value is not None}
    try:
        return model.model_validate({**unknown, **known}, extra="ignore")
    except ValidationError as error:
        wrong = {name for problem in error.errors() for name in problem["loc"][:1]}
        known = {name: value for name, value in known.items() if name not in wrong}
        return model.model_validate({**unknown, **known}, extra="ignore")
