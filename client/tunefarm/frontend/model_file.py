"""Tells the files of models from those of modules."""

from pathlib import Path
from typing import Final

from tunefarm.frontend.model_source import FORMAT_OF_SUFFIX, ModelFile, parse_model_source
from tunefarm.intake.module_source import MODEL_SUFFIXES, JsonSource, split_symbol

_READ_AS_MODULES: Final = (".py", ".json")
"""Files that may hold functions as well as models: the intake finds out."""


def model_file(text: str) -> ModelFile | None:
    """The model file that MODULE names; None for anything that is read as a module.

    Raises:
        BadInput: it is a file of a model that is never loaded, or cannot be read.
    """
    path, symbol = split_symbol(text)
    suffix = Path(path).suffix.lower()
    is_of_model = suffix in MODEL_SUFFIXES or suffix in FORMAT_OF_SUFFIX
    if symbol or ":" in text or suffix in _READ_AS_MODULES or not is_of_model:
        return None
    source = parse_model_source(text)
    return source if isinstance(source, ModelFile) else None


def unread(file: ModelFile) -> JsonSource:
    """The module of a request until the frontend has read the model's file, whose result then replaces it."""
    return JsonSource(name=file.path, text="")
