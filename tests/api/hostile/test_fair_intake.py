"""Slow modules, long queues and many streams of one tenant do not affect other tenants."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest
from fastapi import FastAPI

from tests.api.modules import matmul_json
from tests.api.people import Person, caller_of, person_of
from tests.api.stored import furnished
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.api.application.app import create_app
from tunefarm_services.api.intake.fair_slots import BUSY_NICENESS, FairSlots
from tunefarm_services.api.intake.intake import Intake
from tunefarm_services.api.intake.intake_messages import ModuleQuestion, ModuleText, TargetAnswer, TargetText
from tunefarm_services.api.problems.problem import ApiProblem
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.store import Store

HANG_S = 20.0
NICEST = 19
"""The largest nice value of a process."""


class Slow(Intake):
    """An intake that reads the target ``slow`` until it is released."""

    def __init__(self, settings: ApiSettings) -> None:
        super().__init__(settings)
        self.released = threading.Event()
        self.begun = threading.Semaphore(0)

    def target(self, question: TargetText) -> TargetAnswer:
        if question.text == "slow":
            self.begun.release()
            assert self.released.wait(HANG_S)
        return TargetAnswer(target=Target(canonical='{"kind":"llvm"}', kind="llvm", num_cores=1), notes=())


@pytest.fixture
def slow(settings: ApiSettings) -> Slow:
    return Slow(settings)


@pytest.fixture
def slow_app(store: Store, settings: ApiSettings, slow: Slow) -> FastAPI:
    return create_app(store, settings.model_copy(update={"intake_queue_per_tenant": 20}), intake=slow)


def validated(app: FastAPI, person: Person, target: str) -> httpx.Response:
    """One request on its own connection."""
    return caller_of(app, f"Bearer {person.secret}").post("/v1/targets:validate", json={"target": target})


def test_slow_modules_do_not_delay_other_tenants(slow_app, store, slow):
    alice, bob = person_of(slow_app, store, "alice"), person_of(slow_app, store, "bob")
    with ThreadPoolExecutor(32) as many:
        try:
            backlog = [many.submit(validated, slow_app, alice, "slow") for _ in range(20)]
            assert slow.begun.acquire(timeout=HANG_S)
            assert slow.begun.acquire(timeout=HANG_S)
            for _ in range(3):
                assert many.submit(validated, slow_app, bob, "quick").result(HANG_S / 2).status_code == 200
            assert not any(each.done() for each in backlog)
        finally:
            slow.released.set()
        assert {each.result(HANG_S).status_code for each in backlog} == {200}


def test_full_queue_rejects_only_its_tenant(slow_app, store, slow):
    alice, bob = person_of(slow_app, store, "alice"), person_of(slow_app, store, "bob")
    with ThreadPoolExecutor(32) as many:
        try:
            backlog = [many.submit(validated, slow_app, alice, "slow") for _ in range(30)]
            deadline_s = time.monotonic() + HANG_S
            while sum(each.done() for each in backlog) < 8 and time.monotonic() < deadline_s:
                time.sleep(0.01)
            refused = [each.result() for each in backlog if each.done()]
            assert [answer.status_code for answer in refused] == [429] * 8
            assert int(refused[0].headers["retry-after"]) > 0
            assert many.submit(validated, slow_app, bob, "quick").result(HANG_S / 2).status_code == 200
        finally:
            slow.released.set()


def test_waiting_tenants_take_turns():
    order: list[str] = []

    async def ask(turns: FairSlots, tenant: str) -> None:
        await turns.run(tenant, lambda: order.append(tenant))

    async def all_of_them() -> None:
        turns = FairSlots(1, 100, 100)
        hold = threading.Event()
        first = asyncio.create_task(turns.run("a", lambda: hold.wait(HANG_S)))
        await asyncio.sleep(0)
        others = [asyncio.create_task(ask(turns, tenant)) for tenant in "aaaaabbc"]
        await asyncio.sleep(0)
        hold.set()
        await asyncio.gather(first, *others)

    asyncio.run(all_of_them())
    assert "".join(order) == "abcabaaa"


def test_children_of_busy_tenant_give_way(intake: Intake) -> None:
    now_s = 0.0
    turns = FairSlots(3, 100, 100, clock=lambda: now_s)

    def work(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    async def in_order() -> list[int]:
        first = await turns.run("busy", lambda: added_niceness(intake))
        await turns.run("busy", lambda: work(2.0))
        during = [await turns.run(tenant, lambda: added_niceness(intake)) for tenant in ("busy", "other")]
        work(60.0)
        return [first, *during, await turns.run("busy", lambda: added_niceness(intake))]

    room = NICEST - os.getpriority(os.PRIO_PROCESS, 0)  # these tests may have given way themselves
    assert asyncio.run(in_order()) == [0, min(BUSY_NICENESS, room), 0, 0]


def added_niceness(intake: Intake) -> int:
    """What a real child that reads a module has more than this process."""
    seen: list[int] = []
    answered = threading.Event()

    def watch() -> None:
        while not seen and not answered.is_set():
            with suppress(ProcessLookupError):
                seen.extend(os.getpriority(os.PRIO_PROCESS, child.pid) for child in intake._living().children())

    question = ModuleQuestion(modules=(ModuleText(module_json=matmul_json()),))
    while not seen:  # a child may end before it is seen
        watching = threading.Thread(target=watch)
        watching.start()
        try:
            intake.read(question)
        finally:
            answered.set()
            watching.join()
            answered.clear()
    return seen[0] - os.nice(0)


def test_disconnected_caller_releases_its_slot():
    async def leave_and_ask() -> list[str]:
        turns = FairSlots(1, 4, 4)
        hold = threading.Event()
        running = asyncio.create_task(turns.run("a", lambda: hold.wait(HANG_S)))
        await asyncio.sleep(0)
        for _ in range(10):
            leaving = asyncio.create_task(turns.run("b", lambda: "never"))
            await asyncio.sleep(0)
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
        waiting = [asyncio.create_task(turns.run("c", lambda: "answered")) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(ApiProblem):
            await turns.run("d", lambda: "too many")
        hold.set()
        await running
        return await asyncio.gather(*waiting)

    assert asyncio.run(leave_and_ask()) == ["answered"] * 4


def test_concurrent_streams_stay_within_the_limit(app_with: Callable[..., FastAPI], store: Store) -> None:
    app = app_with(streams_per_tenant=3)
    alice = person_of(app, store, "alice")
    job_id = furnished(store, "alice").job_id
    statuses: list[int] = []
    all_answered = asyncio.Event()

    async def stream() -> None:
        async def receive() -> dict:
            await asyncio.Event().wait()
            return {}

        async def send(message: dict) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                if len(statuses) == 20:
                    all_answered.set()

        headers = [(b"authorization", f"Bearer {alice.secret}".encode())]
        scope = {
            "type": "http",
            "method": "GET",
            "path": f"/v1/jobs/{job_id}/events",
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
        }
        await app(scope, receive, send)

    async def at_once() -> None:
        streams = [asyncio.create_task(stream()) for _ in range(20)]
        async with asyncio.timeout(HANG_S):
            await all_answered.wait()
        for each in streams:
            each.cancel()
        await asyncio.gather(*streams, return_exceptions=True)

    asyncio.run(at_once())
    assert sorted(statuses) == [200] * 3 + [429] * 17
    assert not app.state.parts.streams, "all places are given back"
