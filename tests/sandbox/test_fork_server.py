import gc
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.sandbox.forking import (
    ENVIRONMENT,
    LONG_S,
    ROOMY,
    answer,
    ended,
    fork,
    open_descriptors,
    settled_descriptors,
    within,
)
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import Exit, ForkFailed, ForkServer


def test_child_receives_payload_answers_and_exits(server: ForkServer) -> None:
    child = fork(server, "greet", b"world")
    assert child.channel.receive(LONG_S) == b"hello world"
    end = ended(child)
    assert (end.kind, end.code) == ("exited", 0)
    assert end.peak_memory_bytes > 1 << 20


def test_large_payload_arrives_whole(server: ForkServer) -> None:
    child = fork(server, "greet", b"x" * 20_000_000)
    assert len(child.channel.receive(LONG_S)) == 20_000_006


def test_children_inherit_preloaded_modules(server: ForkServer) -> None:
    assert fork(server, "report_preloaded").channel.receive(LONG_S) == b"preloaded"


def test_fork_waits_for_preloading() -> None:
    with ForkServer.start(["xml.dom.minidom", "asyncio", "children:prepare"], environment=ENVIRONMENT) as starting:
        assert fork(starting, "report_preloaded").channel.receive(LONG_S) == b"preloaded"
        assert starting.ready(0)


@pytest.mark.parametrize("preload", ["no_such_module", "children:no_such_function", "children:fail_to_prepare"])
@pytest.mark.quick_cases(2)
def test_failed_preload_is_reported(preload: str) -> None:
    with ForkServer.start([preload], environment=ENVIRONMENT) as failing:
        assert not failing.ready(LONG_S)
        assert preload in failing.failure
        with pytest.raises(ForkFailed) as failed:
            fork(failing, "greet")
        assert failed.value.kind == "server_lost"
        assert preload in failed.value.reason
        assert within(LONG_S, lambda: not failing.alive)


@pytest.mark.parametrize("entry", ["no_such_function", "HERE.there", "remembered"])
def test_invalid_entry_fails_and_server_continues(server: ForkServer, entry: str) -> None:
    with pytest.raises(ForkFailed) as failed:
        fork(server, entry)
    assert failed.value.kind == "entry"
    assert entry in failed.value.reason
    assert fork(server, "greet").channel.receive(LONG_S) == b"hello "


def test_refused_fork_fails_and_server_continues(server: ForkServer) -> None:
    parent = fork(server, "parent_without_processes", confinement=Confinement.fork_server())
    for _ in range(2):
        with pytest.raises(ForkFailed) as failed:
            fork(ForkServer.within(parent), "greet")
        assert failed.value.kind == "resources"
    parent.close()


def test_child_has_only_given_descriptors(server: ForkServer) -> None:
    read, write = os.pipe()
    child = fork(server, "write_to_descriptors", b"through", descriptors=[write])
    assert os.read(read, 100) == b"through"
    assert ended(child).code == 0
    open_in_child = answer(server, "report_open_descriptors", descriptors=[write]).split()
    assert len(open_in_child) == 5, "standard input, output and error, the channel, and the one handed over"
    os.close(read)
    os.close(write)


def test_exception_exits_with_1_and_prints_traceback(server: ForkServer) -> None:
    child = fork(server, "raise_error")
    assert ended(child) == Exit(kind="exited", code=1, peak_memory_bytes=ended(child).peak_memory_bytes)
    assert "on my way" in child.output()
    assert "ValueError: that is not a schedule" in child.output()


def test_exit_code_is_reported(server: ForkServer) -> None:
    assert ended(fork(server, "leave_with_code", b"7")).code == 7


def test_secrets_in_environment_do_not_reach_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEFARM_API_TOKEN", "a-secret")
    with ForkServer.start([], environment={**ENVIRONMENT, "ADDED": "here"}) as started:
        seen = answer(started, "report_environment").decode()
    assert "a-secret" not in seen
    assert "'ADDED': 'here'" in seen


def test_user_of_confined_child_has_a_name(server: ForkServer) -> None:
    assert answer(server, "report_name_of_user") == b"nobody"


def test_limits_are_applied(server: ForkServer) -> None:
    limits = Limits(cpu_s=1.5, file_size_bytes=4096, open_files=33)
    assert fork(server, "report_limits", limits=limits).channel.receive(LONG_S) == b"[2, 4096, 33, 0]"


def test_niceness_applies_to_one_child(server: ForkServer) -> None:
    before = int(answer(server, "report_niceness"))
    assert int(answer(server, "report_niceness", limits=Limits(niceness=10))) == min(19, before + 10)
    assert int(answer(server, "report_niceness")) == before


def test_child_can_import_other_modules(server: ForkServer) -> None:
    assert fork(server, "import_lazily").channel.receive(LONG_S) == b"wave"


def test_missing_writable_folder_is_refused(server: ForkServer, tmp_path: Path) -> None:
    with pytest.raises(ForkFailed) as failed:
        fork(server, "greet", confinement=Confinement.strict(writable=[str(tmp_path / "gone")]))
    assert failed.value.kind == "confinement"
    assert "gone" in failed.value.reason
    assert answer(server, "greet") == b"hello "


def test_threads_can_share_a_server(server: ForkServer) -> None:
    with ThreadPoolExecutor(8) as threads:
        heard = list(threads.map(lambda number: answer(server, "greet", b"%d" % number), range(8)))
    assert heard == [b"hello %d" % number for number in range(8)]


def test_many_forks_leave_no_descriptors_or_processes(own_server: ForkServer) -> None:
    def round_trip() -> int:
        child = fork(own_server, "greet")
        assert child.channel.receive(LONG_S) == b"hello "
        assert ended(child).code == 0
        return child.pid

    round_trip()
    here, there = open_descriptors(os.getpid()), settled_descriptors(own_server.pid)
    pids = [round_trip() for _ in range(50)]
    assert open_descriptors(os.getpid()) <= here
    assert within(LONG_S, lambda: open_descriptors(own_server.pid) <= there)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_dropping_a_child_kills_it(server: ForkServer) -> None:
    child = fork(server, "wait")
    pid = child.pid
    assert child.channel.receive(LONG_S) == b"waiting"
    del child
    assert within(LONG_S, lambda: not Path(f"/proc/{pid}").exists())


def test_closing_server_kills_children() -> None:
    server = ForkServer.start([], environment=ENVIRONMENT)
    children = [fork(server, "ignore_signals") for _ in range(3)]
    assert [child.channel.receive(LONG_S) for child in children] == [b"deaf"] * 3
    server.close()
    server.close()
    assert not [child.pid for child in children if Path(f"/proc/{child.pid}").exists()]
    assert [ended(child).described() for child in children] == ["killed by SIGKILL"] * 3
    with pytest.raises(ForkFailed):
        server.fork("children:greet", limits=ROOMY, confinement=Confinement.strict())


def test_collected_server_is_ended_without_a_warning() -> None:
    server = ForkServer.start([], environment=ENVIRONMENT)
    child = fork(server, "wait")
    holder = SimpleNamespace(server=server, child=child)
    server.holder = holder  # type: ignore[attr-defined]
    pids = [child.pid, server.pid]
    del server, child, holder
    gc.collect()
    assert within(LONG_S, lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
