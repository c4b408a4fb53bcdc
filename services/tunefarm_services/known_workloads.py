"""Which stored workload a function is: other names of loops and of what it keeps to itself make it no other."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_services.same_workload import AlikeWorkloads, SameAnswer, SameQuestion
from tunefarm_services.store import NotFound
from tunefarm_services.store.catalog.workload_repository import WorkloadRepository

MAX_ALIKE: Final = 4
"""So many stored workloads are compared with one, for somebody may store any number that only look alike."""
LONGEST_QUESTION: Final = 64 << 20
"""Characters of all modules that are compared at once. Those beyond are not."""


def recognised(
    known: WorkloadRepository,
    tenant: str,
    workloads: Sequence[Workload],
    compare: Callable[[SameQuestion], SameAnswer],
    *,
    with_schedules: bool,
) -> tuple[Workload, ...]:
    """The workloads, each as it is stored where the store has it under other names of variables.

    ``compare`` asks a confined child. What cannot be compared stays a workload of its own. Each keeps its own name.
    """
    pairs = tuple(_alike(known, tenant, workloads))
    same = _compared(pairs, compare, with_schedules=with_schedules)
    # Reversed, so that of several that are stored the first one counts.
    stored = {pair.workload.workload_id: pair.stored for pair, is_same in reversed(same) if is_same}
    return tuple(_named(stored.get(each.workload_id, each), each.name) for each in workloads)


def _alike(known: WorkloadRepository, tenant: str, workloads: Sequence[Workload]) -> Iterator[AlikeWorkloads]:
    characters = 0
    for workload in {each.workload_id: each for each in workloads}.values():
        if _is_stored(known, tenant, workload):
            continue
        found = known.with_hash(tenant, workload.structural_hash, workload.tvm_version)
        for stored in [each for each in found if each.arguments == workload.arguments][:MAX_ALIKE]:
            characters += len(workload.module_json) + len(stored.module_json)
            if characters <= LONGEST_QUESTION:
                yield AlikeWorkloads(workload=workload, stored=stored)


def _is_stored(known: WorkloadRepository, tenant: str, workload: Workload) -> bool:
    try:
        known.stored(tenant, workload.workload_id)
    except NotFound:
        return False
    return True


def _compared(
    pairs: Sequence[AlikeWorkloads], compare: Callable[[SameQuestion], SameAnswer], *, with_schedules: bool
) -> list[tuple[AlikeWorkloads, bool]]:
    if not pairs:
        return []
    try:
        answer = compare(SameQuestion(pairs=tuple(pairs), with_schedules=with_schedules))
    except BadInput:
        return []
    return list(zip(pairs, answer.same, strict=True))


def _named(workload: Workload, name: str) -> Workload:
    return workload if workload.name == name else workload.model_copy(update={"name": name})
