"""What a user imports and types: the command line, and the composition of one machine's parts into a tuner.

Importing this package loads neither TVM nor SQLAlchemy; commands import what they need when they run, and
``tunefarm.embedded`` is loaded when it is first used.
"""

import importlib
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    """Load ``tunefarm.embedded`` on first use.

    Raises:
        AttributeError: for every other name that is not defined here.
    """
    if name == "embedded":
        return importlib.import_module("tunefarm.embedded")
    raise AttributeError(f"module 'tunefarm' has no attribute {name!r}")
