"""Parses ``--target``, before TVM checks it. Called only in a confined child, which knows the host's processor name."""

import json
from collections.abc import Mapping
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.target_preset import PRESET_NAMES, preset_attributes

FIELD: Final = "target"
FIX: Final = (
    'Write host, host:THREADS, or a TVM target as JSON, such as \'{"kind": "llvm", "mcpu": "znver4", "num-cores": 2}\'.'
)
NAMED_FIX: Final = f"{FIX} Or name one of {', '.join(PRESET_NAMES)}."


def parse_target_text(text: str, *, host_cores: int, host_cpu: str) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """The target's attributes, and notes on the defaults that were filled in.

    Raises:
        BadInput: ``text`` is not ``host``, a preset or a JSON object.
    """
    name, _, threads_text = text.strip().partition(":")
    if not name:
        note = f"target: this host, {host_cpu} on {host_cores} core{'s' if host_cores != 1 else ''}"
        return _host(host_cpu, host_cores), (note,)
    if name == "host":
        threads = _threads(threads_text, host_cores)
        note = (
            f"target: {threads} threads share this host's {host_cores} cores; latencies do not apply to {threads} cores"
        )
        return _host(host_cpu, threads), (note,) if threads > host_cores else ()
    attributes = preset_attributes(text.strip()) or _parse_json(text)
    if attributes.get("kind") == "llvm" and "num-cores" not in attributes:
        note = f"target: num-cores was not given; using this host's {host_cores}"
        return {**attributes, "num-cores": host_cores}, (note,)
    return attributes, ()


def _host(host_cpu: str, cores: int) -> dict[str, object]:
    return {"kind": "llvm", "mcpu": host_cpu, "num-cores": cores}


def _threads(text: str, host_cores: int) -> int:
    if not text:
        return host_cores
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise BadInput(FIELD, f"{text!r} is not a number of threads.", FIX)
    return int(text)


def _parse_json(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(FIELD, f"{text!r} is neither host, nor a preset, nor JSON.", NAMED_FIX) from error
    if not isinstance(value, dict):
        raise BadInput(FIELD, f"{text!r} is not a JSON object.", FIX)
    return value
