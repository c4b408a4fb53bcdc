"""A farm while the blob store's disk is full."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.kernel_library import kernel_library
from tests.acceptance.small_disk import fill, small_disk
from tests.farm.workers import (
    Worker,
    await_ready,
    dispatch_of,
    eventually,
    gather,
    lane_of,
    reason_of,
    registrar,
    simulated_task,
)
from tests.servers.redis_server import RedisServer
from tunefarm_schemas.tuning.measurement import Exported, ExportOrder
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.store import Store, StoreUnavailable
from tunefarm_services.tuner.farm.celery_farm import CeleryFarm

FULL_S = 3.0


@pytest.fixture
def disk(home: Path) -> Iterator[Path]:
    with small_disk(home / "blobs", "4m") as mounted:
        yield mounted


@pytest.mark.faults
def test_export_waits_for_space_on_full_disk(
    disk: Path,
    broker: RedisServer,
    store: Store,
    open_farm: Callable[..., CeleryFarm],
    start_worker: Callable[..., Worker],
):
    worker = start_worker("lane")
    with registrar(store, broker.url):
        await_ready(store, worker)
        farm = open_farm()
        farm.open_task(simulated_task())
        filler = fill(disk)
        with pytest.raises(StoreUnavailable):
            open_farm().open_task(simulated_task("another"))
        farm.submit(dispatch_of())
        assert {reason_of(measurement) for measurement in gather(farm, 1).values()} == {None}
        full_until_s = time.monotonic() + FULL_S
        reasons = set()

        def on_wait() -> bool:
            reasons.add(lane_of(store, "lane").reason)
            if time.monotonic() > full_until_s:
                filler.unlink(missing_ok=True)
            return time.monotonic() < full_until_s + 30.0

        exported = farm.export(ExportOrder(exploration_id="exploration", trace=Trace(text="a")), on_wait)
        assert time.monotonic() > full_until_s
        assert isinstance(exported, Exported), exported
        assert exported.library == kernel_library()
        assert any("space" in reason for reason in reasons), reasons
        eventually(lambda: not lane_of(store, "lane").reason, what="taking work again")
        assert worker.process.poll() is None
