"""A request fails for the end of its child only if it may have caused it."""

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.sandbox.forking import ROOMY
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_sandbox.fork_server.question import Fixes, ask
from tunefarm_schemas.bad_input import BadInput

QUESTION = ROOMY
FIXES = Fixes(too_large="less", ended="otherwise", late="sooner")


def asked(server: ForkServer, entry: str = "echo_late", timeout_s: float = 60.0) -> Limits:
    return ask(
        server,
        f"children:{entry}",
        QUESTION,
        Limits,
        field="module",
        fixes=FIXES,
        limits=ROOMY,
        timeout_s=timeout_s,
        described=lambda how, output: f"{how}.",
    )


def during_request(server: ForkServer, act: Callable[[int], None], times: int = 1) -> threading.Thread:
    """Call ``act`` on each of the first ``times`` children, once it runs."""

    def watch() -> None:
        seen: set[int] = set()
        while len(seen) < times:
            for child in server.children():
                if child.pid not in seen:
                    seen.add(child.pid)
                    act(child.pid)
            time.sleep(0.01)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_request_is_repeated_after_its_child_is_killed(server: ForkServer) -> None:
    watching = during_request(server, kill)
    assert asked(server) == QUESTION
    watching.join()


def test_request_fails_if_its_children_are_killed_again(server: ForkServer) -> None:
    watching = during_request(server, kill, times=2)
    with pytest.raises(BadInput, match="killed by SIGKILL") as refused:
        asked(server)
    watching.join()
    assert (refused.value.field, refused.value.fix) == ("module", "otherwise")


def test_lost_server_is_not_blamed_on_the_request(own_server: ForkServer) -> None:
    assert own_server.ready(60.0)
    server_pid = own_server.pid
    watching = during_request(own_server, lambda _: kill(server_pid))
    with pytest.raises(ForkFailed) as lost:
        asked(own_server)
    watching.join()
    assert lost.value.kind == "server_lost"


def test_child_that_exits_is_not_repeated(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    forked: list[str] = []
    fork = server.fork

    def noted(entry: str, payload: bytes, **options: Any) -> Child:
        forked.append(entry)
        return fork(entry, payload, **options)

    monkeypatch.setattr(server, "fork", noted)
    with pytest.raises(BadInput, match="exited with code 0"):
        asked(server, "write_to_descriptors")
    with pytest.raises(BadInput, match=r"longer than 0\.2 s"):
        asked(server, timeout_s=0.2)
    assert forked == ["children:write_to_descriptors", "children:echo_late"]


@pytest.mark.parametrize("entry", ["answer_with_half_a_pair", "refuse_with_half_a_pair"])
def test_answer_that_is_not_text_is_a_refusal(server: ForkServer, entry: str) -> None:
    with pytest.raises(BadInput, match=r"surrogate|it says \?"):
        asked(server, entry)
