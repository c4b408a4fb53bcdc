"""External functions of models: Python functions that a user's file registers with TVM."""

from pathlib import Path
from typing import Final

from tunefarm.intake.user_file import run_user_file
from tunefarm_schemas.bad_input import BadInput

FIELD: Final = "functions"


def register_functions(path: str) -> tuple[str, ...]:
    """Execute a Python file that registers functions with ``tvm.register_global_func``; return their names.

    Functions that it replaces are not among them. Raises ``BadInput`` if it raises, or registers none.
    """
    from tvm_ffi.registry import list_global_func_names

    before = set(list_global_func_names())
    run_user_file(FIELD, path)
    names = tuple(sorted(set(list_global_func_names()) - before))
    if not names:
        fix = 'Write, say, @tvm.register_global_func("env.relu") above each function.'
        raise BadInput(FIELD, f"{Path(path).name} registers no functions.", fix)
    return names
