"""A request is blamed for its child's end only if it may have caused it."""

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from tests.sandbox.forking import ROOMY
from tunefarm_sandbox.confinement.limits import Limits
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


def while_it_is_asked(server: ForkServer, act: Callable[[int], None], times: int = 1) -> threading.Thread:
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
    watching = while_it_is_asked(server, kill)
    assert asked(server) == QUESTION
    watching.join()


def test_a_question_whose_children_are_killed_again_is_refused(server: ForkServer) -> None:
    watching = while_it_is_asked(server, kill, times=2)
    with pytest.raises(BadInput, match="killed by SIGKILL") as refused:
        asked(server)
    watching.join()
    assert (refused.value.field, refused.value.fix) == ("module", "otherwise")


def test_a_server_that_dies_is_not_the_fault_of_the_question(server_of_its_own: ForkServer) -> None:
    assert server_of_its_own.ready(60.0)
    assert server_of_its_own._process is not None
    server_pid = server_of_its_own._process.pid
    watching = while_it_is_asked(server_of_its_own, lambda _: kill(server_pid))
    with pytest.raises(ForkFailed) as lost:
        asked(server_of_its_own)
    watching.join()
    assert lost.value.kind == "server_lost"


def test_a_child_that_ends_by_itself_is_not_asked_again(server: ForkServer) -> None:
    began_s = time.monotonic()
    with pytest.raises(BadInput, match="exited with code 0"):
        asked(server, "write_to_descriptors")
    with pytest.raises(BadInput, match=r"longer than 0\.2 s"):
        asked(server, timeout_s=0.2)
    assert time.monotonic() - began_s < 30.0


@pytest.mark.parametrize("entry", ["answer_with_half_a_pair", "refuse_with_half_a_pair"])
def test_answer_that_is_not_text_is_a_refusal(server: ForkServer, entry: str) -> None:
    with pytest.raises(BadInput, match=r"surrogate|it says \?"):
        asked(server, entry)
