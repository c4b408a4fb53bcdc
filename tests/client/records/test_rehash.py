"""``db rehash`` after an upgrade of TVM."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvm.s_tir.meta_schedule.testing.te_workload import create_te_workload

from tests.store.sample import workload as unreadable_workload
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.tvm.workload import workload_of
from tunefarm_services.store import LOCAL_TENANT, Store

OLD = {"structural_hash": "1", "tvm_version": "0.26.0"}


def opened(home: Path) -> "contextlib.closing[Store]":
    home.mkdir(exist_ok=True)
    return contextlib.closing(Store.open(f"sqlite:///{home}/tunefarm.db", home / "blobs"))


def matmul() -> Workload:
    return workload_of(create_te_workload("GMM", 0))


def test_rehash_finds_workloads_of_older_tvm(tunefarm: Callable[..., Any], home: Path) -> None:
    known = matmul()
    with opened(home) as store:
        for tenant in (LOCAL_TENANT, "team"):
            store.workloads.put(tenant, known.model_copy(update=OLD))
    ended = tunefarm("db", "rehash", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out) == {"tvm_version": known.tvm_version, "rehashed": 2, "refused": []}
    with opened(home) as store:
        for tenant in (LOCAL_TENANT, "team"):
            assert store.workloads.with_hash(tenant, known.structural_hash, known.tvm_version) == [known]
    assert json.loads(tunefarm("db", "rehash", "--json").out)["rehashed"] == 0


def test_rehash_reports_unreadable_workload_and_continues(tunefarm: Callable[..., Any], home: Path) -> None:
    with opened(home) as store:
        store.workloads.put(LOCAL_TENANT, matmul().model_copy(update=OLD))
        store.workloads.put(LOCAL_TENANT, unreadable_workload())
    ended = tunefarm("db", "rehash")
    assert ended.code == 2
    assert unreadable_workload().workload_id in ended.out
    assert "1 workloads have the hashes" in ended.out
    assert "Traceback" not in ended.err
