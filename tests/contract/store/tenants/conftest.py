"""Two tenants of one sharing group."""

import pytest

from tunefarm_services.store import Store

ALICE, BOB = "alice", "bob"


@pytest.fixture
def shared(store: Store) -> Store:
    for tenant in (ALICE, BOB):
        store.sharing_groups.join("team", tenant)
    return store
