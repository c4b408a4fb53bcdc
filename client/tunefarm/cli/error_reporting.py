"""Turns errors into one line with the field and the fix, and an exit status."""

import errno
import os
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tunefarm.terminal.console import complain
from tunefarm.terminal.exit_code import ExitCode
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.visible_text import visible_line

AS_TYPED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "module": "MODULE",
        "target": "--target",
        "function": "--function",
        "all_functions": "--all-functions",
        "trials": "--trials",
        "seconds": "--seconds",
        "plateau_trials": "--plateau",
        "target_latency_us": "--target-latency-us",
        "strategy": "--strategy",
        "seed": "--seed",
        "input": "--input",
        "shape": "--shape",
        "shapes": "--shape",
        "traced": "--traced",
        "functions": "--functions",
        "space": "--space",
        "seed_traces": "--seed-trace",
        "trace": "--trace",
        "latency_us": "--latency-us",
        "resume": "--resume",
        "output": "--output",
        "abi": "--abi",
        "protocol": "--protocol",
        "protocol_id": "--protocol",
        "device_class_id": "--device-class",
        "record": "RECORD",
        "job": "JOB",
        "folder": "DIR",
        "file": "FILE",
        "api": "--api",
        "device_seconds": "--device-seconds",
        "deadline_s": "--deadline",
    }
)
"""Options and arguments of the command line by their names in Python."""

SERVER_ERROR: Final = 500
LONGEST_TEXT: Final = 4_000
"""Characters. An argument may be a hundred thousand long, and the fix follows it."""
STORAGE_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def run_at_edge(command: Callable[[], int]) -> int:
    """Run ``command`` and return the exit status. Expected errors are printed without a traceback."""
    try:
        return command()
    except BadInput as error:
        return _report(
            AS_TYPED.get(error.field, error.field), f"{error.problem} {error.fix}".strip(), ExitCode.BAD_INPUT
        )
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of standard output has closed it; flushing at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.FINE
    except Exception as error:
        code = _known(error)
        if code is None:
            raise
        return code


def _known(error: Exception) -> int | None:
    """Print an error of the store, the settings or the disk, and return its exit status; None for any other."""
    if isinstance(error, OSError) and error.errno in STORAGE_FULL:
        return _report("TUNEFARM_HOME", f"the disk is full ({error.strerror}). Free some space.", ExitCode.BAD_INPUT)
    # Looks in sys.modules instead of importing: if a module is not loaded, the error cannot be one of its own.
    store_error = getattr(sys.modules.get("tunefarm_services.store"), "StoreError", None)
    if store_error is not None and isinstance(error, store_error):
        return _report(_field_of(error), str(error), ExitCode.BAD_INPUT)
    fork_failed = getattr(sys.modules.get("tunefarm_sandbox.fork_server.fork_server"), "ForkFailed", None)
    if fork_failed is not None and isinstance(error, fork_failed):
        return _report("sandbox", f"{error} See: tunefarm doctor", ExitCode.BAD_INPUT)
    code = _of_service(error)
    if code is not None:
        return code
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(error, pydantic.ValidationError) and error.title.endswith("Settings"):
        details = "; ".join(f"TUNEFARM_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors())
        return _report("settings", f"{details}. Correct the environment variable.", ExitCode.BAD_INPUT)
    return None


def _of_service(error: Exception) -> int | None:
    """Print an error response of a service or its absence, and return the exit status; None for any other error."""
    errors = sys.modules.get("tunefarm.http.api_error")
    if errors is None:
        return None
    if isinstance(error, errors.ServiceUnreachable):
        return _report("service", f"{error}. Start it with tunefarm serve, or check --api.", ExitCode.UNREACHABLE)
    if isinstance(error, errors.ApiError):
        field = AS_TYPED.get(error.field, error.field) or "service"
        is_unreachable = error.status >= SERVER_ERROR
        return _report(field, str(error), ExitCode.UNREACHABLE if is_unreachable else ExitCode.BAD_INPUT)
    return None


def _field_of(error: Exception) -> str:
    noun = getattr(error, "noun", None)
    return AS_TYPED.get(str(noun), "store") if noun is not None else "store"


def _report(field: str, text: str, code: ExitCode) -> int:
    shown = text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT // 2]} ... {text[-LONGEST_TEXT // 2 :]}"
    complain(f"tunefarm: {visible_line(field)}: {visible_line(shown)}")
    return code
