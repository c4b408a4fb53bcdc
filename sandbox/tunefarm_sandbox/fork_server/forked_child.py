"""A child from the fork to the entry function and its exit."""

import contextlib
import ctypes.util
import gc
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.confinement import landlock_domain, linux
from tunefarm_sandbox.confinement.abilities import Abilities
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.filter_program import FilterProgram
from tunefarm_sandbox.confinement.limits import Limits, MemoryInUse, bound_threads, impose
from tunefarm_sandbox.confinement.own_confinement import OwnConfinement
from tunefarm_sandbox.confinement.process_user import CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, give_up_root
from tunefarm_sandbox.fork_server.fork_request import CONFINED, ForkRefused
from tunefarm_sandbox.fork_server.status_socket import answer
from tunefarm_schemas.frozen import Frozen

NOT_CONFINED: Final = 125
"""Exit code of a child whose confinement failed, so that it ran nothing; the parent never sees it."""

_PAYLOAD_TIMEOUT_S: Final = 60.0


class Setting(Frozen):
    """What a child needs to know of its server, collected before the fork."""

    server_pid: int
    limits: Limits
    confinement: Confinement
    outer: Confinement | None
    """The confinement of the server itself; None if it has none."""
    abilities: Abilities
    memory: MemoryInUse | None
    filter: FilterProgram | None
    """The seccomp program to install."""
    ruleset: int | None
    """Landlock's rules if they are the same for all children; None if the child creates its own."""
    tasks: int | None
    """Number of threads on this machine, if those of the child are limited."""


def run(setting: Setting, function: Callable[[Channel, bytes, list[int]], Any], descriptors: list[int]) -> NoReturn:
    """Confine this process, call ``function`` with its channel, the payload and its descriptors, and exit.

    ``descriptors`` are those of the request.
    """
    channel, status, output, *others = descriptors
    code = NOT_CONFINED
    try:
        _confine_or_refuse(setting, channel, status, output, others)
        code = 1
        code = _run(function, channel, status, others)
    except BaseException:  # noqa: BLE001 - whatever it was, this copy of the server must not go on
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code)


def _confine_or_refuse(setting: Setting, channel: int, status: int, output: int, others: Sequence[int]) -> None:
    try:
        rules = () if setting.ruleset is None else (setting.ruleset,)
        _keep_only_descriptors(output, (channel, status, *rules, *others))
        _confine(setting)
    except Exception as error:
        answer(status, ForkRefused(kind="confinement", reason=f"{type(error).__name__}: {error}"))
        raise


def _run(
    function: Callable[[Channel, bytes, list[int]], Any], channel_descriptor: int, status: int, others: list[int]
) -> int:
    channel = Channel(channel_descriptor)
    try:
        payload = channel.receive(_PAYLOAD_TIMEOUT_S)
        answer(status, CONFINED)  # not earlier: the parent sends the payload once it knows the pid
        os.close(status)
        gc.enable()
        function(channel, payload, others)
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except ChannelClosed:
        code = 1
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return code & 0xFF


def _confine(setting: Setting) -> None:
    confinement = setting.confinement
    os.setpgid(0, 0)
    _change_folders(confinement)
    if not confinement.may_exec:
        _find_no_libraries()
    _change_user(setting)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # the system may set it when a process changes its user
    impose(setting.limits, setting.memory)
    if setting.tasks is not None:
        bound_threads(setting.tasks)
    if setting.abilities.no_new_privileges:
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if setting.abilities.landlock_abi:
        _enter_domain(setting)
    _die_with(setting.server_pid)
    if setting.filter is not None:
        setting.filter.install()
        OwnConfinement.is_filtered = True


def _enter_domain(setting: Setting) -> None:
    """Enter a domain of this child alone: in a shared domain it could open the memory of its siblings."""
    ruleset = setting.ruleset
    if ruleset is None:
        # In a nested child the own rules deny /proc of its server, and the server's rules deny its own.
        ruleset = landlock_domain.ruleset_of(
            setting.confinement, setting.abilities.landlock_abi, with_own_process=setting.outer is None
        )
    landlock_domain.enter(ruleset)
    os.close(ruleset)


def _keep_only_descriptors(output: int, kept: Sequence[int]) -> None:
    os.dup2(output, 1)
    os.dup2(output, 2)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    first = 3
    for descriptor in sorted(kept):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def _change_folders(confinement: Confinement) -> None:
    os.umask(0o077)
    if confinement.writable:
        os.environ["TMPDIR"] = confinement.writable[0]
        tempfile.tempdir = None
    os.chdir(confinement.writable[0] if confinement.writable else "/")


def _find_no_libraries() -> None:
    """Answer searches for the C libraries of this system with None, as if none was found.

    Python searches with the linker and a temporary file, and raises where it can write none. NVIDIA's
    ``cuda-bindings``, which torch imports where they are installed, search so and go on without.
    """
    ctypes.util.find_library = _found_nothing


def _found_nothing(name: str) -> str | None:  # noqa: ARG001 - the shape of Python's function
    return None


def _change_user(setting: Setting) -> None:
    if os.geteuid() != 0 or setting.outer is not None:
        return
    confinement = setting.confinement
    kept: tuple[int, ...] = ()
    if setting.abilities.landlock_abi:
        # Landlock decides which files; without these the other user cannot reach those below folders private to root.
        kept = (CAP_DAC_OVERRIDE,) if confinement.writable else (CAP_DAC_READ_SEARCH,)
    user_id = confinement.user_id if setting.abilities.can_change_user else None
    give_up_root(user_id, kept_capabilities=kept, across_exec=confinement.may_exec)


def _die_with(server_pid: int) -> None:
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server_pid:
        os._exit(NOT_CONFINED)
