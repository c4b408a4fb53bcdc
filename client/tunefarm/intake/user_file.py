"""Executes a user's Python file and finds its definitions. Called only in a confined child."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.kernel_library.program import BUILTINS

FUNCTIONS: Final = "functions"
"""The field of the file that registers external functions of a model with TVM."""
MODULE_NAME: Final = "user_module"
PREDEFINED: Final = frozenset({"I", "T", "R"})
"""Names that scripts printed by TVM use without importing them."""
_FEW_LINES: Final = 3


def run_user_file(field: str, path: str) -> ModuleType:
    """Execute the file once, and return its module.

    Raises:
        BadInput: the file does not compile or raises.
    """
    from tunefarm_search.tvm.quick_decorators import quick_decorators

    file = Path(path)
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    name = f"{MODULE_NAME}_{file.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadInput(field, f"{file.name} is not a Python file.", "Give a file whose name ends in .py.")
    module = importlib.util.module_from_spec(spec)
    module.__dict__.update(_predefined())
    sys.modules[name] = module
    try:
        with quick_decorators():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise BadInput(field, f"running {file.name} failed: {describe(error)}.", _fix_of(error)) from error
    return module


def user_object(field: str, path: str, symbol: str) -> Any:
    """The object with the name ``symbol`` in the file.

    Raises:
        BadInput: the file does not define it.
    """
    module = run_user_file(field, path)
    found: Any = module
    for part in symbol.split("."):
        found = getattr(found, part, None)
    if found is None or symbol in PREDEFINED:
        names = ", ".join(own_names(module)) or "nothing"
        raise BadInput(field, f"{Path(path).name} does not define {symbol!r}.", f"It defines {names}.")
    return found


def called(field: str, function: Callable[..., Any], symbol: str, returning: str) -> Any:
    """What a function without required parameters returns. ``returning`` says what that should be.

    Raises:
        BadInput: it has required parameters, or raises.
    """
    required = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if required:
        fix = f"Give a function without parameters that returns {returning}."
        raise BadInput(field, f"{symbol} requires the arguments {', '.join(required)}.", fix)
    try:
        return function()
    except Exception as error:
        fix = "Run it with Python to see the whole error, and fix it."
        raise BadInput(field, f"calling {symbol} failed: {describe(error)}.", fix) from error


def register_functions(path: str) -> tuple[str, ...]:
    """Execute a Python file that registers functions with ``tvm.register_global_func``; return their names.

    Functions that it replaces are not among them. Raises ``BadInput`` if it raises, or registers none.
    """
    from tvm_ffi.registry import list_global_func_names

    before = set(list_global_func_names())
    run_user_file(FUNCTIONS, path)
    names = tuple(sorted(set(list_global_func_names()) - before))
    if not names:
        fix = 'Write, say, @tvm.register_global_func("env.relu") above each function.'
        raise BadInput(FUNCTIONS, f"{Path(path).name} registers no functions.", fix)
    return names


def require_registered(module: Any, functions_file: str | None) -> None:
    """Require that ``functions_file`` registers what the Relax functions of ``module`` call.

    Without it, a model would be tuned for hours before its build fails.

    Raises:
        BadInput: a function is missing, or the file raises.
    """
    import tvm

    registered = () if functions_file is None else register_functions(functions_file)
    missing = [
        name
        for name in external_functions(module)
        if name not in registered and tvm.get_global_func(name, allow_missing=True) is None
    ]
    if missing:
        problem = f"the model calls {', '.join(missing)}, which no module defines."
        raise BadInput(FUNCTIONS, problem, "Name the file that registers them: --functions FILE.py.")


def external_functions(module: Any) -> tuple[str, ...]:
    """The names of the functions that the Relax functions of ``module`` call and TVM's VM does not have."""
    from tvm import relax

    found: set[str] = set()

    def keep(expression: Any) -> None:
        if isinstance(expression, relax.ExternFunc):
            found.add(str(expression.global_symbol))

    for function in module.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function.body, keep)
    return tuple(sorted(found - BUILTINS))


def own_names(module: ModuleType) -> list[str]:
    """The public names that the file defines, without imported modules."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and name not in PREDEFINED and not isinstance(value, ModuleType)
    ]


def describe(error: BaseException) -> str:
    """The type of an error and its message in one line, without a full stop.

    Only the last line of a long message, such as TVM's, which contains a stack trace.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines if len(lines) <= _FEW_LINES else lines[-1:])
    location = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno is not None else ""
    return f"{type(error).__name__}{location}: {text[:400].rstrip('.') or 'no message'}"


def _predefined() -> Mapping[str, Any]:
    # Imported here because it takes 0.1 s, and only TVMScript files need it.
    from tvm.script import ir, relax, tirx

    return {"I": ir, "T": tirx, "R": relax}


def _fix_of(error: BaseException) -> str:
    if isinstance(error, ImportError):
        return "Install the modules that it imports in the environment of tunefarm."
    return "Run the file with Python to see the whole error, and fix it."
