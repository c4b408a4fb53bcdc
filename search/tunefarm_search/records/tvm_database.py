"""TVM's JSON database, validated when read, and written so that unmodified TVM loads it.

The database is two files: workloads, one per line with a hash and a module; and records, one per line with the number
of its workload, a trace, run times, target and arguments. TVM neither checks a hash nor survives a truncated line.
"""

import base64
import json
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import tvm

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import canonical_json
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.records.asked_forms import MARK, Form, forms_of, hash_of, workload_of_form
from tunefarm_search.tvm.errors import TVM_ERRORS, last_line
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target
from tunefarm_search.tvm.tensor_intrinsics.of_tvm import triple_of
from tunefarm_search.validation.foreign_input import foreign_module, foreign_workload
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_search.validation.judgement import NotPermitted

LENGTH_BYTES = 8
"""The module's text is preceded by its length, a little-endian number of this many bytes, before both are encoded."""
LONGEST_LATENCY_S = 1e4
"""TVM writes 1e10 s for a failed run."""
Found = TypeVar("Found")


@dataclass(frozen=True)
class DatabaseRecord:
    """A record whose trace applies to its workload. The latency is the median, in seconds.

    ``is_form``: its line refers to a form of the workload that TVM looks up, and may repeat one of the workload itself.
    """

    workload: Workload
    target: Target
    trace: Trace
    latency_s: float
    is_form: bool


@dataclass(frozen=True)
class DatabaseFiles:
    """The text of the two files."""

    workloads: str
    records: str


class LineRefused(Exception):
    """Raised for a line that cannot be used, with the reason."""


@dataclass(frozen=True)
class _KnownWorkload:
    """The workload of a line, and whether the line is a form of it."""

    workload: Workload
    module: Any
    is_form: bool


class DatabaseReader:
    """Reads a database line by line. Modules may call ``callees``.

    Parsing crafted lines can crash TVM: use it in a child that may die. ``before_tvm`` is called before TVM processes
    a line: with the number of a workload to load, otherwise with None. A trace that several records of a workload
    repeat is applied only once, because that takes milliseconds.
    """

    def __init__(
        self, callees: Collection[str] = (), before_tvm: Callable[[int | None], None] = lambda _: None
    ) -> None:
        self.before_tvm = before_tvm
        self._callees = callees
        self._lines: dict[int, str] = {}
        self._workloads: dict[int, _KnownWorkload | LineRefused] = {}
        self._targets: dict[str, Target | LineRefused] = {}
        self._traces: dict[tuple[str, str, str], LineRefused | None] = {}

    def hold(self, number: int, line: str) -> None:
        """Keep a line of the workloads, counted from 0, until it is needed."""
        self._lines[number] = line

    def check_workload(self, number: int) -> None:
        """Raises LineRefused: the workload of that number cannot be used."""
        if number in self._lines:
            self._known(number)

    def record(self, line: str) -> DatabaseRecord:
        """Parse one line of the records. Raises LineRefused."""
        value = _value(line)
        if not (isinstance(value, list) and len(value) == 2 and isinstance(value[1], list) and len(value[1]) == 4):
            raise LineRefused("a record is the number of a workload and [trace, run times, target, arguments]")
        known = self._named(value[0])
        steps, times, target, arguments = value[1]
        if arguments != _described(known.workload):
            raise LineRefused("its arguments are not those of its workload")
        latency_s = _latency_s(times)
        canonical = self._target(target)
        return DatabaseRecord(
            known.workload, canonical, self._applied(known, canonical, steps), latency_s, known.is_form
        )

    def _named(self, number: Any) -> _KnownWorkload:
        if type(number) is not int or number not in self._lines:
            raise LineRefused(f"there is no usable workload {str(number)[:20] if type(number) is int else ''}".rstrip())
        try:
            return self._known(number)
        except LineRefused as reason:
            raise LineRefused(f"there is no usable workload {number}") from reason

    def _known(self, number: int) -> _KnownWorkload:
        if number not in self._workloads:
            self.before_tvm(number)
            try:
                self._workloads[number] = _parsed_workload(_value(self._lines[number]), self._callees)
            except LineRefused as reason:
                self._workloads[number] = reason
        return _or_raised(self._workloads[number])

    def _target(self, value: Any) -> Target:
        if not isinstance(value, dict):
            raise LineRefused("its target is not an object")
        text = json.dumps(value)
        if text not in self._targets:
            self.before_tvm(None)
            try:
                self._targets[text] = _parsed_target(value)
            except LineRefused as reason:
                self._targets[text] = reason
        return _or_raised(self._targets[text])

    def _applied(self, known: _KnownWorkload, target: Target, steps: Any) -> Trace:
        try:
            trace = Trace.from_json(steps)
            trace_id = trace.trace_id  # of UTF-8, which halves of surrogate pairs have no form in
        except (ValueError, TypeError, RecursionError) as error:
            raise LineRefused("its trace is invalid") from error
        key = (known.workload.workload_id, f"{target.kind} {triple_of(target)}", trace_id)
        if key not in self._traces:
            self.before_tvm(None)
            self._traces[key] = self._reason_against(known, target, steps)
        reason = self._traces[key]
        if reason is not None:
            raise LineRefused(str(reason))
        return trace

    def _reason_against(self, known: _KnownWorkload, target: Target, steps: Any) -> LineRefused | None:
        try:
            judged_schedule(known.module, steps, kind=target.kind, triple=triple_of(target), callees=self._callees)
        except NotPermitted as refused:
            return LineRefused(f"its schedule {refused}")
        except TVM_ERRORS as error:
            return LineRefused(f"its trace does not replay: {last_line(error)}")
        return None


def export_database(entries: Iterable[tuple[Workload, Target, Trace, Sequence[float]]]) -> DatabaseFiles:
    """Write records, each with its run times in seconds, and each for all forms in which TVM looks up its workload."""
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
    return DatabaseFiles(_text([_workload_line(form) for form in forms]), _text(record_lines))


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


def _or_raised(found: Found | LineRefused) -> Found:
    if isinstance(found, LineRefused):
        raise LineRefused(str(found))
    return found


def _value(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = "the line is not JSON; it may have been truncated while it was written"
        if not isinstance(error, json.JSONDecodeError):
            reason = "the line has a number that is too long, or is nested too deeply"
        raise LineRefused(reason) from error


def _parsed_workload(value: Any, callees: Collection[str]) -> _KnownWorkload:
    if not (isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)):
        raise LineRefused("a workload is a hash and an encoded module")
    try:
        text = base64.b64decode(value[1], validate=True)[LENGTH_BYTES:].decode()
        metadata = json.loads(text)["metadata"]
        version = metadata["tvm_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LineRefused("the module cannot be decoded") from error
    if version != str(tvm.__version__):
        raise LineRefused(f"the module was written by TVM {str(version)[:40]}; this is TVM {tvm.__version__}")
    try:
        module = foreign_module(text)
        workload = foreign_workload(module, None, None, callees)
        meant = workload_of_form(module, str(metadata[MARK])) if MARK in metadata else None
    except BadInput as error:
        raise LineRefused(f"{error.problem} {error.fix}") from error
    except TVM_ERRORS as error:
        raise LineRefused(f"TVM cannot load the module: {last_line(error)}") from error
    if value[0] != hash_of(module):
        raise LineRefused("the hash is not that of the module")
    known = workload if meant is None else meant
    return _KnownWorkload(known, load_json(known.module_json), is_form=meant is not None)


def _parsed_target(value: dict[str, Any]) -> Target:
    try:
        given = {key: each for key, each in value.items() if not key.startswith("feature.")}
        return canonical_target(given, tuned=True).target
    except BadInput as error:
        raise LineRefused(f"its target cannot be used: {error.problem}") from error
    except TVM_ERRORS as error:
        raise LineRefused(f"its target cannot be used: {last_line(error)}") from error


def _latency_s(times: Any) -> float:
    if not isinstance(times, list) or not times or not all(type(each) in {int, float} for each in times):
        raise LineRefused("it has no run times")
    try:
        latency_s = float(statistics.median(times))
    except OverflowError as error:
        raise LineRefused("its run time is not a plausible duration") from error
    if not (math.isfinite(latency_s) and 0 < latency_s < LONGEST_LATENCY_S):
        raise LineRefused(f"its run time of {latency_s} s is that of a failure")
    return latency_s
