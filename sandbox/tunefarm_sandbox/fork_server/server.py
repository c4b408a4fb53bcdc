"""The process that forks: a single-threaded loop, and its program."""

import contextlib
import gc
import os
import select
import signal
import sys
from collections.abc import Sequence
from typing import Final

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.confinement import landlock_domain, linux, system_call_filter
from tunefarm_sandbox.confinement.abilities import Abilities, abilities
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.denied_system_calls import Granted
from tunefarm_sandbox.confinement.limits import MemoryInUse, tasks_of_server, tasks_on_this_machine
from tunefarm_sandbox.confinement.own_cgroup import within_own_cgroup
from tunefarm_sandbox.confinement.own_confinement import OwnConfinement
from tunefarm_sandbox.fork_server.entry_point import UnusableEntry, preload, resolve
from tunefarm_sandbox.fork_server.fork_request import DESCRIPTORS_OF_REQUEST, Forked, ForkRefused, ForkRequest, Ready
from tunefarm_sandbox.fork_server.forked_child import Setting, run
from tunefarm_sandbox.fork_server.memory_shortage import MemoryShortage
from tunefarm_sandbox.fork_server.running_children import RunningChildren
from tunefarm_sandbox.fork_server.status_socket import answer

_STRAYS_CHECK_MS: Final = 20


def serve(channel: Channel) -> None:
    """Fork children at the request of the other end of ``channel`` until it closes; then kill them and return.

    The entry function of a child that may fork can call this. Its children are then confined at least as tightly, and
    inherit its module globals; ``/proc/self`` is their own, and they cannot read it. This process must have only one
    thread, and must not have run code that breaks in a forked copy.
    """
    memory_shortage = None if OwnConfinement.confinement is not None else MemoryShortage()
    # From its first instruction on, processes of the same user must not open or trace a child of this process.
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    server = _Server(channel, memory_shortage)
    channel.send(Ready().model_dump_json().encode())
    server.run()


class _Server:
    def __init__(self, channel: Channel, memory_shortage: MemoryShortage | None) -> None:
        self._channel = channel
        self._memory_shortage = memory_shortage
        self._plain_ruleset: int | None = None
        self._children = RunningChildren()
        self._abilities = abilities()
        self._parent = os.pidfd_open(os.getppid())
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
        self._prepare_for_children()

    def run(self) -> None:
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._loop()
        finally:
            self._children.end_all()
            os.close(self._parent)
            if collecting:
                gc.enable()

    def _prepare_for_children(self) -> None:
        """Compute once what every child would otherwise compute."""
        for may_exec in (False, True):
            landlock_domain.granted_by_default(may_exec)
            for may_fork in (False, True):
                for may_pin_threads in (False, True) if self._abilities.seccomp else ():
                    system_call_filter.program(
                        Granted(may_fork=may_fork, may_exec=may_exec, may_pin_threads=may_pin_threads)
                    )
        if self._abilities.seccomp:
            system_call_filter.seal_program()
        if self._abilities.landlock_abi and OwnConfinement.confinement is not None:
            self._plain_ruleset = landlock_domain.ruleset_of(
                Confinement.strict(), self._abilities.landlock_abi, with_own_process=False
            )

    def _loop(self) -> None:
        waiting = select.poll()
        waiting.register(self._channel.fileno(), select.POLLIN)
        waiting.register(self._parent, select.POLLIN)
        while True:
            timeout_ms = _STRAYS_CHECK_MS if self._children.may_have_strays else None
            ready = {descriptor for descriptor, _ in waiting.poll(timeout_ms)}
            for descriptor in ready & self._children.pidfds():
                waiting.unregister(descriptor)
                self._children.reap(descriptor)
            self._children.end_strays()
            if self._parent in ready:
                return
            if self._channel.fileno() in ready:
                try:
                    message, descriptors = self._channel.receive_with_descriptors()
                except ChannelClosed:
                    return
                pidfd = self._handle(message, descriptors)
                if pidfd is not None:
                    waiting.register(pidfd, select.POLLIN)

    def _handle(self, message: bytes, descriptors: list[int]) -> int | None:
        """Fork what ``message`` asks for, and return the child's pidfd."""
        if len(descriptors) < DESCRIPTORS_OF_REQUEST:  # too many are open; the parent sees the socket closed
            for descriptor in descriptors:
                os.close(descriptor)
            return None
        request = ForkRequest.model_validate_json(message)
        status = descriptors[1]
        try:
            forked = self._fork(request, descriptors)
        finally:
            for descriptor in (*descriptors[:1], *descriptors[2:]):
                os.close(descriptor)
        if isinstance(forked, ForkRefused):
            answer(status, forked)
            os.close(status)
            return None
        pid, pidfd = forked
        answer(status, Forked(pid=pid), pidfd)
        self._children.add(pid, pidfd, status, may_fork=request.confinement.may_fork)
        return pidfd

    def _fork(self, request: ForkRequest, descriptors: list[int]) -> tuple[int, int] | ForkRefused:
        lacking = _lacking(request.confinement, self._abilities)
        if lacking is not None:
            return ForkRefused(kind="confinement", reason=lacking)
        try:
            function = resolve(request.entry)
        except UnusableEntry as error:
            return ForkRefused(kind="entry", reason=str(error))
        setting = self._setting(request)
        gc.freeze()
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            pid = os.fork() if self._memory_shortage is None else self._memory_shortage.fork_killed_first()
        except OSError as error:
            return ForkRefused(kind="resources", reason=f"fork: {error.strerror}")
        if pid == 0:
            self._channel.forget()
            OwnConfinement.confinement = request.confinement
            run(setting, function, descriptors)
        return _hold(pid)

    def _setting(self, request: ForkRequest) -> Setting:
        confinement = request.confinement
        return Setting.model_construct(
            server_pid=os.getpid(),
            limits=request.limits,
            confinement=confinement,
            outer=OwnConfinement.confinement,
            abilities=self._abilities,
            memory=MemoryInUse.of_this_process() if request.limits.memory_bytes is not None else None,
            filter=system_call_filter.program(confinement.granted) if self._abilities.seccomp else None,
            ruleset=None if confinement.may_exec or confinement.has_paths_of_its_own else self._plain_ruleset,
            # A server lives long and its children inherit the limit, so it is set for each of them when it starts.
            tasks=None if confinement.may_fork and not confinement.may_exec else tasks_on_this_machine(),
        )


def _hold(pid: int) -> tuple[int, int] | ForkRefused:
    """The pid and pidfd of a new child, which leads a process group before the parent hears of it."""
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    try:
        return pid, os.pidfd_open(pid)
    except OSError as error:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return ForkRefused(kind="resources", reason=f"pidfd_open: {error.strerror}")


def _lacking(confinement: Confinement, offered: Abilities) -> str | None:
    if OwnConfinement.confinement is not None:
        exceeding = confinement.exceeds(OwnConfinement.confinement)
        if exceeding is not None:
            return exceeding
    missing = offered.missing(connects=bool(confinement.connect_ports)) if confinement.require else ()
    if missing:
        return " ".join(missing)
    return None


def main(arguments: Sequence[str]) -> None:
    """Preload and serve. ``arguments``: the channel's descriptor, the parent's pid, then the preloads.

    This process dies at once with the thread that started it.
    """
    channel = Channel(int(arguments[0]))
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(arguments[1]):
        return
    gc.disable()  # imported objects stay: scanning them repeatedly frees nothing
    with within_own_cgroup(tasks_of_server()):
        try:
            for name in arguments[2:]:
                preload(name)
        except UnusableEntry as error:
            channel.send(Ready(failure=str(error)).model_dump_json().encode())
            return
        serve(channel)


if __name__ == "__main__":
    # Children import this module by its name and must find the state that this process set in it.
    from tunefarm_sandbox.fork_server.server import main as main_of_module

    main_of_module(sys.argv[1:])
