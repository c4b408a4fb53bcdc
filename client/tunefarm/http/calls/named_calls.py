"""Calls for one resource by its id or a prefix of it."""

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, TypeVar

from tunefarm.http.api_error import ApiError
from tunefarm.http.paging import listed
from tunefarm.http.request import Answer, Flow
from tunefarm.terminal.named_id import ASKED_FOR, JOB_ID_LENGTH, RECORD_ID_LENGTH, require_one
from tunefarm_schemas.bad_input import BadInput

T = TypeVar("T")
_HEXADECIMAL: Final = re.compile("[0-9a-f]+")


class _OneJob(Answer):
    job_id: str


class _OneRecord(Answer):
    record_id: str


def of_job(job_id: str, ask: Callable[[str], Flow[T]]) -> Flow[T]:
    """The result of ``ask`` for the job whose id is, or begins with, ``job_id``.

    Raises:
        BadInput: several jobs match.
    """
    return _named("job", job_id, JOB_ID_LENGTH, _jobs_like, ask)


def of_record(record_id: str, ask: Callable[[str], Flow[T]]) -> Flow[T]:
    """The result of ``ask`` for the record whose id is, or begins with, ``record_id``.

    Raises:
        BadInput: several records match.
    """
    return _named("record", record_id, RECORD_ID_LENGTH, _records_like, ask)


def records_or_jobs_like(text: str) -> Flow[tuple[list[str], list[str]]]:
    """The one record, or the one job, whose id is or begins with ``text``, as lists of which one is empty.

    Raises:
        BadInput: none matches, or several do.
    """
    is_id = _HEXADECIMAL.fullmatch(text) is not None
    records = (yield from _records_like(text)) if is_id else []
    jobs = (yield from _jobs_like(text)) if is_id else []
    if text in records or text in jobs:
        records, jobs = [each for each in records if each == text], [each for each in jobs if each == text]
    found = [*records, *jobs]
    if len(found) > 1:
        problem = f"several records and jobs begin with {text!r}: {', '.join(found[: ASKED_FOR - 1])}."
        raise BadInput("source", problem, "Give more characters of its id.")
    if not found:
        fix = "See: tunefarm records list --remote, tunefarm jobs list"
        raise BadInput("source", f"no record or job has the id {text[:100]!r}.", fix)
    return records, jobs


def _named(
    noun: str, text: str, whole_length: int, like: Callable[[str], Flow[list[str]]], ask: Callable[[str], Flow[T]]
) -> Flow[T]:
    if not text:
        raise BadInput(noun, f"the id of the {noun} is empty.", f"See: tunefarm {noun}s list")
    try:
        return (yield from ask(text))  # most ids are complete and need no second request
    except ApiError as refusal:
        if refusal.status != HTTPStatus.NOT_FOUND or len(text) >= whole_length:
            raise
        found = (yield from like(text)) if _HEXADECIMAL.fullmatch(text) else []
        if not found:
            raise
    require_one(noun, text, found)
    return (yield from ask(found[0]))


def _jobs_like(text: str) -> Flow[list[str]]:
    found = yield from listed("/jobs", _OneJob, {"id_prefix": text}, ASKED_FOR)
    return [each.job_id for each in found if each.job_id.startswith(text)]  # older services ignore id_prefix


def _records_like(text: str) -> Flow[list[str]]:
    found = yield from listed("/records", _OneRecord, {"id_prefix": text}, ASKED_FOR)
    return [each.record_id for each in found if each.record_id.startswith(text)]
