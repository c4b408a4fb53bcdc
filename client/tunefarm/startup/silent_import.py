"""Imports the libraries without the reports about their use that they would send to their makers."""

import os
import sys
from typing import Any, Final

_OFF: Final = "ORT_DISABLE_TELEMETRY"
_REPORTING: Final = "openvino_telemetry"


def import_onnxruntime() -> Any:
    """The module ``onnxruntime``, which sends nothing.

    From version 1.32 on it uploads events to its maker, and writes an identifier of the machine to the home folder.
    It reads the variable when it is loaded; where the user's program has loaded it before, the call switches it off.

    Raises:
        ImportError: it is not installed.
    """
    given = os.environ.get(_OFF)
    os.environ[_OFF] = "1"
    try:
        import onnxruntime
    finally:
        if given is None:
            del os.environ[_OFF]
        else:
            os.environ[_OFF] = given
    onnxruntime.disable_telemetry_events()
    return onnxruntime


def import_openvino() -> Any:
    """The module ``openvino``, without the package that sends events to its maker.

    That package writes an identifier of the machine to the home folder while ``openvino`` is imported, which a confined
    process may not. Without it, a stub that comes with ``openvino`` stands in its place.

    Raises:
        ImportError: it is not installed.
    """
    if "openvino" in sys.modules or _REPORTING in sys.modules:
        import openvino

        return openvino
    sys.modules[_REPORTING] = None  # type: ignore[assignment]
    try:
        import openvino
    finally:
        del sys.modules[_REPORTING]
    return openvino
