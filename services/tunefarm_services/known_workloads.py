"""Finds the stored workload of a function. Names of loops, variables and internal buffers make no difference."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_services.same_workload import AlikeWorkloads, SameAnswer, SameQuestion
from tunefarm_services.store import NotFound
from tunefarm_services.store.catalog.workload_repository import WorkloadRepository

MAX_ALIKE: Final = 4
"""Stored workloads to compare with one. A tenant may store any number with the same structural hash."""
MAX_CHARACTERS: Final = 64 << 20
"""Maximum characters of all modules in one comparison. Further pairs are not compared."""


def recognised(
    known: WorkloadRepository,
    tenant: str,
    workloads: Sequence[Workload],
    compare: Callable[[SameQuestion], SameAnswer],
    *,
    with_schedules: bool,
    of_model: bool = False,
) -> tuple[Workload, ...]:
    """Replace each workload that the store has with other variable names by the stored one; keep its name and work.

    Other tenants of the sharing group may have stored it: an exploration that both have needs one workload.

    ``of_model``: they are functions of a model. Their parameters have the names of variables in that model, to which no
    input spec refers, so other names of parameters make no difference.

    ``compare`` compares in a confined child. A workload that cannot be compared is not replaced.
    """
    pairs = tuple(_alike(known, tenant, workloads, of_model=of_model))
    same = _compared(pairs, compare, with_schedules=with_schedules, of_model=of_model)
    # Reversed, so that the first of several stored ones wins.
    stored = {pair.workload.workload_id: pair.stored for pair, is_same in reversed(same) if is_same}
    return tuple(_named(stored.get(each.workload_id, each), each) for each in workloads)


def _alike(
    known: WorkloadRepository, tenant: str, workloads: Sequence[Workload], *, of_model: bool
) -> Iterator[AlikeWorkloads]:
    characters = 0
    for workload in {each.workload_id: each for each in workloads}.values():
        if _is_stored(known, tenant, workload):
            continue
        for stored in known.alike(tenant, workload, MAX_ALIKE, with_other_arguments=of_model):
            characters += len(workload.module_json) + len(stored.module_json)
            if characters <= MAX_CHARACTERS:
                yield AlikeWorkloads(workload=workload, stored=stored)


def _is_stored(known: WorkloadRepository, tenant: str, workload: Workload) -> bool:
    try:
        known.stored(tenant, workload.workload_id)
    except NotFound:
        return False
    return True


def _compared(
    pairs: Sequence[AlikeWorkloads],
    compare: Callable[[SameQuestion], SameAnswer],
    *,
    with_schedules: bool,
    of_model: bool,
) -> list[tuple[AlikeWorkloads, bool]]:
    if not pairs:
        return []
    try:
        answer = compare(SameQuestion(pairs=tuple(pairs), with_schedules=with_schedules, of_model=of_model))
    except BadInput:
        return []
    return list(zip(pairs, answer.same, strict=True))


def _named(workload: Workload, given: Workload) -> Workload:
    """The workload with the given name, and with the given work if an earlier version stored it without."""
    work = workload.work or given.work
    if (workload.name, workload.work) == (given.name, work):
        return workload
    return workload.model_copy(update={"name": given.name, "work": work})
