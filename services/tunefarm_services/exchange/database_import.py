"""Stores the records of a TVM database as claims."""

from collections.abc import Callable, Iterable
from typing import Final

from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_schemas.views.database import ImportReport, RefusedLine
from tunefarm_services.exchange.claims import claim, kept, key_without_place
from tunefarm_services.exchange.database_messages import UnderstoodLines
from tunefarm_services.known_workloads import recognised
from tunefarm_services.same_workload import SameAnswer, SameQuestion
from tunefarm_services.store import Store

MAX_REFUSALS: Final = 1000


def take_in(
    store: Store, tenant: str, batches: Iterable[UnderstoodLines], compare: Callable[[SameQuestion], SameAnswer]
) -> ImportReport:
    """Store a claim for each new record. Processes batch after batch, so that memory stays bounded.

    ``compare`` asks a confined child which stored workloads are equal to others.
    """
    imported = _Import(store, tenant, compare)
    for batch in batches:
        imported.take(batch)
    return ImportReport(
        record_ids=tuple(imported.new),
        already_there=imported.already_there,
        refusals=tuple(imported.refusals),
        refused=imported.refused,
    )


class _Import:
    def __init__(self, store: Store, tenant: str, compare: Callable[[SameQuestion], SameAnswer]) -> None:
        self._store = store
        self._tenant = tenant
        self._compare = compare
        self._workloads: dict[str, Workload] = {}
        self._targets: dict[str, Target] = {}
        self._seen: set[str] = set()
        self.new: list[str] = []
        self.already_there = 0
        self.refusals: list[RefusedLine] = []
        self.refused = 0

    def take(self, batch: UnderstoodLines) -> None:
        self.refused += len(batch.refused)
        self.refusals += batch.refused[: MAX_REFUSALS - len(self.refusals)]
        self.already_there += batch.repeated
        self._targets |= {target.target_id: target for target in batch.targets}
        unknown = [each for each in batch.workloads if each.workload_id not in self._workloads]
        known = recognised(self._store.workloads, self._tenant, unknown, self._compare, with_schedules=True)
        self._workloads |= {given.workload_id: found for given, found in zip(unknown, known, strict=True)}
        for record in batch.records:
            workload, target = self._workloads[record.workload_id], self._targets[record.target_id]
            key = key_without_place(workload.workload_id, target.target_id)
            offered = claim(self._tenant, key, record.trace, record.latency_s, "imported")
            if offered.record_id in self._seen:  # reported by the previous child
                self.already_there += not record.is_form
                continue
            self._seen.add(offered.record_id)
            stored, is_new = kept(self._store, offered, workload, target)
            if is_new:
                self.new.append(stored.record_id)
            else:
                self.already_there += 1
