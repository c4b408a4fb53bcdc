"""The texts of records' code, each written once by a confined child and then kept in memory."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.views.record import CodeForm, RecordCode
from tunefarm_services.record_views.code_messages import CodeQuestion, CodeText, RecordSchedule, fetching
from tunefarm_services.store import NotFound, Store

MAX_LIBRARY_BYTES: Final = 16 << 20
KEPT_CHARACTERS: Final = 32 << 20

Ask: TypeAlias = Callable[[CodeQuestion], CodeText]
_Key: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class _Wanted:
    """A text: where it is kept, and of which artifact it is."""

    key: _Key
    record: TuningRecord
    artifact_id: str | None = None
    library_digest: str | None = None


class RecordCodes:
    """Texts of records' code. Threads may share it.

    A text is kept under what it was made from, for one tenant: how long an answer takes tells nothing about others.
    """

    def __init__(self, store: Store, ask: Ask, kept_characters: int = KEPT_CHARACTERS) -> None:
        self._store = store
        self._ask = ask
        self._kept_characters = kept_characters
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, CodeText] = OrderedDict()

    def known(self, tenant: str, record_id: str, form: CodeForm) -> RecordCode | None:
        """The text if it is kept; None if a child must write it. Raises as ``get``."""
        wanted = self._wanted(tenant, record_id, form)
        with self._lock:
            text = self._kept.get(wanted.key)
            if text is None:
                return None
            self._kept.move_to_end(wanted.key)
        return _code(wanted, form, text)

    def get(self, tenant: str, record_id: str, form: CodeForm) -> RecordCode:
        """The text, written by a child if it is not kept.

        Raises:
            NotFound: there is no such record, or no artifact of it to disassemble.
            BlobMissing, BlobDamaged: of the artifact's library.
            BadInput: the trace does not apply, or the child died or took too long.
            ForkFailed: no child could be forked.
        """
        known = self.known(tenant, record_id, form)
        if known is not None:
            return known
        wanted = self._wanted(tenant, record_id, form)
        text = self._ask(CodeQuestion(form=form, source=self._source(tenant, wanted)))
        self._keep(wanted.key, text)
        return _code(wanted, form, text)

    def _wanted(self, tenant: str, record_id: str, form: CodeForm) -> _Wanted:
        record = self._store.records.get(tenant, record_id)
        if form is not CodeForm.ASSEMBLY:
            made_from = (record.key.workload_id, record.key.target_id, digest(record.trace.text))
            return _Wanted((tenant, form.value, *made_from), record)
        manifests = self._store.artifacts.newest_first(tenant, record.record_id)
        if not manifests:
            raise NotFound("artifact of the record", record_id)
        newest = manifests[0]
        return _Wanted((tenant, form.value, newest.library_digest), record, newest.artifact_id, newest.library_digest)

    def _source(self, tenant: str, wanted: _Wanted) -> RecordSchedule | bytes:
        record = wanted.record
        if wanted.artifact_id is None:
            return RecordSchedule(
                module_json=self._store.workloads.get(tenant, record.key.workload_id).module_json,
                trace=record.trace,
                target=self._store.targets.get(record.key.target_id, tenant=tenant),
            )
        _, library = self._store.artifacts.get(tenant, wanted.artifact_id)
        if len(library) > MAX_LIBRARY_BYTES:
            problem = f"it has {len(library)} bytes, and at most {MAX_LIBRARY_BYTES} are disassembled."
            raise BadInput("library", problem, f"Fetch it: {fetching(record.record_id)}")
        return library

    def _keep(self, key: _Key, text: CodeText) -> None:
        with self._lock:
            self._kept[key] = text
            while len(self._kept) > 1 and sum(len(each.text) for each in self._kept.values()) > self._kept_characters:
                self._kept.popitem(last=False)


def _code(wanted: _Wanted, form: CodeForm, text: CodeText) -> RecordCode:
    return RecordCode(
        record_id=wanted.record.record_id,
        form=form,
        text=text.text,
        is_truncated=text.is_truncated,
        artifact_id=wanted.artifact_id,
        library_digest=wanted.library_digest,
    )
