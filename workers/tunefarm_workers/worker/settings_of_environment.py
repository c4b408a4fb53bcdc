"""Reads the settings of one kind of lane from the environment."""

from typing import TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from tunefarm_schemas.bad_input import BadInput

S = TypeVar("S", bound=BaseSettings)


def settings_of_environment(kind: type[S], fix: str) -> S:
    """An instance of ``kind``. Raises BadInput for the first invalid variable, with ``fix``."""
    try:
        return kind()
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"]).upper() or "*"
        raise BadInput(f"{kind.model_config.get('env_prefix', '')}{name}", f"{first['msg']}.", fix) from error
