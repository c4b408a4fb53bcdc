"""Stored workloads stand for equal ones that are given."""

import pytest

from tests.store.sample import TENANT, workload
from tunefarm_schemas.roofline import Work
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_services.known_workloads import MAX_ALIKE, recognised
from tunefarm_services.same_workload import SameAnswer, SameQuestion
from tunefarm_services.store import BlobMissing, Store

GIVEN = workload("given")


def test_a_stored_workload_takes_the_name_and_the_work_of_an_equal_one(store: Store) -> None:
    stored = store.workloads.put(TENANT, workload("of an earlier version"))
    work = Work(moved_bytes=8, dtype="float32")
    renamed = workload("with other names of variables", name="dense")
    given = renamed.model_copy(update={"structural_hash": stored.structural_hash, "work": work})
    (found,) = recognised(store.workloads, TENANT, [given], lambda _: SameAnswer(same=(True,)), with_schedules=False)
    assert found == stored.model_copy(update={"name": "dense", "work": work})
    store.workloads.put(TENANT, found)
    assert store.workloads.get(TENANT, stored.workload_id).work == work


def test_a_workload_of_the_sharing_group_stands_for_an_equal_one(store: Store) -> None:
    for tenant in ("alice", "bob"):
        store.sharing_groups.join("team", tenant)
    of_alice = store.workloads.put("alice", workload("of alice", name="first"))
    given = workload("of bob", name="second").model_copy(update={"structural_hash": of_alice.structural_hash})

    def found(tenant: str, *same: bool) -> tuple[str, str]:
        (each,) = recognised(store.workloads, tenant, [given], lambda _: SameAnswer(same=same), with_schedules=False)
        return each.workload_id, each.name

    assert found("carol", True) == (given.workload_id, "second")
    assert found("bob", False) == (given.workload_id, "second")
    assert found("bob", True) == (of_alice.workload_id, "second")
    own = store.workloads.put(
        "bob", workload("of bob too").model_copy(update={"structural_hash": of_alice.structural_hash})
    )
    assert found("bob", True, True) == (own.workload_id, "second"), "the tenant's own comes first"
    assert store.workloads.with_hash("bob", of_alice.structural_hash, of_alice.tvm_version) == [own]


def put_alike(store: Store, tenant: str, text: str, *, extent: int = 128, is_readable: bool = True) -> Workload:
    """A workload with the hash of the given one, and with its arguments unless ``extent`` is another."""
    alike = workload(text, extent=extent).model_copy(update={"structural_hash": GIVEN.structural_hash})
    stored = store.workloads.put(tenant, alike)
    if not is_readable:
        store.blobs.remove(stored.workload_id)
    return stored


def compared(store: Store, tenant: str, *, of_model: bool = False) -> list[str]:
    """The ids of the workloads that the given one is compared with."""
    found: list[str] = []

    def differ(question: SameQuestion) -> SameAnswer:
        found.extend(pair.stored.workload_id for pair in question.pairs)
        return SameAnswer(same=(False,) * len(question.pairs))

    recognised(store.workloads, tenant, [GIVEN], differ, with_schedules=False, of_model=of_model)
    return found


def test_only_modules_that_are_compared_are_read(store: Store) -> None:
    alike = [put_alike(store, TENANT, f"alike {number}") for number in range(MAX_ALIKE + 1)]
    *first, last = sorted(each.workload_id for each in alike)
    store.blobs.remove(last)
    put_alike(store, TENANT, "of another shape", extent=8, is_readable=False)
    assert compared(store, TENANT) == first


def test_unreadable_module_of_the_sharing_group_is_left_out(store: Store) -> None:
    for tenant in ("alice", "bob"):
        store.sharing_groups.join("team", tenant)
    put_alike(store, "alice", "unreadable", is_readable=False)
    whole = put_alike(store, "alice", "whole")
    other = put_alike(store, "alice", "of another shape", extent=8)
    assert compared(store, "bob") == [whole.workload_id]
    assert set(compared(store, "bob", of_model=True)) == {whole.workload_id, other.workload_id}
    with pytest.raises(BlobMissing):
        compared(store, "alice")
