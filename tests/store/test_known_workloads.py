"""Stored workloads stand for equal ones that are given."""

from tests.store.sample import TENANT, workload
from tunefarm_schemas.roofline import Work
from tunefarm_services.known_workloads import recognised
from tunefarm_services.same_workload import SameAnswer
from tunefarm_services.store import Store


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
