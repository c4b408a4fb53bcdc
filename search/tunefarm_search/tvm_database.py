"""TVM's JSON database, read with suspicion and written so that stock TVM loads it.

The database is two files: workloads, a line each with a hash and a module; and records, a line each with the number of
its workload, a trace, run times, target and arguments. TVM neither checks a hash nor survives a line that is cut off.
"""

import base64
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tvm

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import canonical_json
from tunefarm_schemas.target import Target
from tunefarm_schemas.trace import Trace
from tunefarm_schemas.workload import Workload
from tunefarm_search.asked_forms import MARK, Form, forms_of, hash_of, workload_of_form
from tunefarm_search.intrinsics import triple_of
from tunefarm_search.judged_schedule import judged_schedule
from tunefarm_search.target import canonical_target
from tunefarm_search.tvm_errors import TVM_ERRORS, last_line
from tunefarm_search.workload import workload_of

LENGTH_BYTES = 8
"""The module's text follows its length, a little-endian number of as many bytes, before both are encoded."""
LONGEST_LATENCY_S = 1e4
"""TVM writes 1e10 s for a run that failed."""


@dataclass(frozen=True)
class AcceptedLine:
    """A record whose trace replays on its workload. ``line`` counts from 1; the latency is the median, in seconds."""

    line: int
    workload: Workload
    target: Target
    trace: Trace
    latency_s: float


@dataclass(frozen=True)
class RefusedLine:
    """A line that cannot be used, and why. ``line`` counts from 1."""

    file: Literal["workloads", "records"]
    line: int
    reason: str


@dataclass(frozen=True)
class ParsedDatabase:
    """What a database holds."""

    accepted: tuple[AcceptedLine, ...]
    refused: tuple[RefusedLine, ...]


@dataclass(frozen=True)
class ExportedDatabase:
    """The text of the two files."""

    workloads: str
    records: str


class _Refused(Exception):
    """Why a line is of no use."""


@dataclass(frozen=True)
class _Known:
    """What a line of the workloads stands for, and whether as a form of it."""

    workload: Workload
    is_form: bool


def parse_database(workloads: str, records: str) -> ParsedDatabase:
    """Read the text of both files. What a form repeats of its workload's records is passed over.

    Parsing crafted modules can crash TVM: for files of others, call this in a child that may die.
    """
    accepted, refused = [], []
    parsed: dict[int, _Known] = {}
    told: set[tuple[str, str]] = set()
    for number, line in enumerate(workloads.splitlines()):
        try:
            parsed[number] = _known(_value(line))
        except _Refused as reason:
            refused.append(RefusedLine("workloads", number + 1, str(reason)))
    for number, line in enumerate(records.splitlines()):
        try:
            value = _value(line)
            known = _named(value, parsed)
            said = (known.workload.workload_id, line.partition(",")[2])
            if not (known.is_form and said in told):
                told.add(said)
                accepted.append(_record(number + 1, value[1], known.workload))
        except _Refused as reason:
            refused.append(RefusedLine("records", number + 1, str(reason)))
    return ParsedDatabase(tuple(accepted), tuple(refused))


def export_database(entries: Iterable[tuple[Workload, Target, Trace, Sequence[float]]]) -> ExportedDatabase:
    """Write records, each with its run times in seconds, and each for all forms in which TVM asks for its workload."""
    written = list(entries)
    forms = forms_of({workload.workload_id: workload for workload, _, _, _ in written}.values())
    numbers: dict[str, list[int]] = {}
    for number, form in enumerate(forms):
        numbers.setdefault(form.workload_id, []).append(number)
    record_lines = [
        canonical_json([number, body])
        for workload, target, trace, latencies_s in written
        for body in [_body(workload, target, trace, latencies_s)]
        for number in numbers[workload.workload_id]
    ]
    return ExportedDatabase(_text([_workload_line(form) for form in forms]), _text(record_lines))


def _body(workload: Workload, target: Target, trace: Trace, latencies_s: Sequence[float]) -> list[object]:
    return [trace.as_json(), list(latencies_s), json.loads(target.canonical), _described(workload)]


def _described(workload: Workload) -> list[object]:
    return [["TENSOR", argument.dtype, list(argument.shape)] for argument in workload.arguments]


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _workload_line(form: Form) -> str:
    module = form.module_json.encode()
    packed = base64.b64encode(len(module).to_bytes(LENGTH_BYTES, "little") + module).decode()
    return canonical_json([form.structural_hash, packed])


def _value(line: str) -> Any:
    try:
        return json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise _Refused("the line is not JSON; it may have been cut off while it was written") from error


def _known(value: Any) -> _Known:
    if not (isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)):
        raise _Refused("a workload is a hash and an encoded module")
    try:
        text = base64.b64decode(value[1], validate=True)[LENGTH_BYTES:].decode()
        metadata = json.loads(text)["metadata"]
        version = metadata["tvm_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise _Refused("the module cannot be decoded") from error
    if version != str(tvm.__version__):
        raise _Refused(f"the module was written by TVM {version}; this is TVM {tvm.__version__}")
    try:
        module = tvm.ir.load_json(text)
        workload = workload_of(module)
        meant = workload_of_form(module, str(metadata[MARK])) if MARK in metadata else None
    except BadInput as error:
        raise _Refused(f"{error.problem} {error.fix}") from error
    except TVM_ERRORS as error:
        raise _Refused(f"TVM cannot load the module: {last_line(error)}") from error
    if value[0] != hash_of(module):
        raise _Refused("the hash is not that of the module")
    return _Known(workload, is_form=False) if meant is None else _Known(meant, is_form=True)


def _named(value: Any, workloads: Mapping[int, _Known]) -> _Known:
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[1], list) and len(value[1]) == 4):
        raise _Refused("a record is the number of a workload and [trace, run times, target, arguments]")
    known = workloads.get(value[0]) if isinstance(value[0], int) else None
    if known is None:
        raise _Refused(f"there is no usable workload {value[0]}")
    return known


def _record(line: int, body: list[Any], workload: Workload) -> AcceptedLine:
    steps, times, target, arguments = body
    _check_arguments(workload, arguments)
    latency_s = _latency_s(times)
    canonical = _target(target)
    return AcceptedLine(line, workload, canonical, _replayed(workload, canonical, steps), latency_s)


def _check_arguments(workload: Workload, arguments: Any) -> None:
    if arguments != _described(workload):
        raise _Refused("its arguments are not those of its workload")


def _latency_s(times: Any) -> float:
    if not isinstance(times, list) or not times or not all(isinstance(t, int | float) for t in times):
        raise _Refused("it has no run times")
    latency_s = float(statistics.median(times))
    if not (math.isfinite(latency_s) and 0 < latency_s < LONGEST_LATENCY_S):
        raise _Refused(f"its run time of {latency_s} s is that of a failure")
    return latency_s


def _target(value: Any) -> Target:
    if not isinstance(value, dict):
        raise _Refused("its target is not an object")
    try:
        return canonical_target({k: v for k, v in value.items() if not str(k).startswith("feature.")}).target
    except BadInput as error:
        raise _Refused(f"its target cannot be used: {error.problem}") from error


def _replayed(workload: Workload, target: Target, steps: Any) -> Trace:
    try:
        module = tvm.ir.load_json(workload.module_json)
        judged_schedule(module, steps, kind=target.kind, triple=triple_of(target))
    except TVM_ERRORS as error:
        raise _Refused(f"its trace does not replay: {last_line(error)}") from error
    return Trace.from_json(steps)
