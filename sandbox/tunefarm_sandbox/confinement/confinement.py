"""The permissions of a child."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final, Self

from pydantic import field_validator, model_validator

from tunefarm_sandbox.confinement.abilities import Abilities, abilities
from tunefarm_sandbox.confinement.denied_system_calls import Granted
from tunefarm_schemas.frozen import Frozen

__all__ = ["NOBODY", "Abilities", "Confinement", "abilities"]

NOBODY: Final = 65534
"""The user and group that a child of root becomes."""


class Confinement(Frozen):
    """The permissions of a child.

    By default a child may compute, read the system's libraries and the Python environment, and use its channel.
    No child may open a socket, trace, signal or inspect other processes, or gain privileges. The libraries of the
    system and the folders of the interpreter are always readable. Paths are absolute.

    A child that serves a device can be granted two exceptions: TCP connections to named ports, and device files.

    Attributes:
        readable: further folders and files that may be read, regardless of their owner. Missing ones are skipped.
        writable: folders in which files may be created, changed and removed. The first holds its temporary files.
        may_fork: may start processes of its own, for a nested fork server. They are killed with it.
        may_exec: may run the system's programs and the interpreter, for compilers; used together with ``may_fork``.
        programs: further folders whose programs may be run if ``may_exec`` is set.
        devices: device files that may be opened, written and controlled, such as those of a GPU; excludes
            ``connect_ports``. With any, the child may also do what libraries of drivers do: name its threads, create
            anonymous files, and listen on local sockets, to which no confined process can connect.
        connect_ports: TCP ports that may be connected to, on any reachable host. No other sockets can be created.
        may_pin_threads: may set the affinity of threads by their ids, for children that pin the threads of kernels.
            Until it is sealed, the kernel also lets it do so for other processes of its user.
        user_id: user and group that the child becomes if its parent is root; None stays root without capabilities.
        require: refuse to fork if the kernel does not offer all of this, instead of applying what it offers.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    may_fork: bool = False
    may_exec: bool = False
    programs: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    connect_ports: tuple[int, ...] = ()
    may_pin_threads: bool = False
    user_id: int | None = NOBODY
    require: bool = False

    @field_validator("readable", "writable", "programs", "devices")
    @classmethod
    def _are_absolute(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        for path in paths:
            if not path.startswith("/") or "\0" in path:
                raise ValueError(f"{path!r} is not an absolute path")
        return paths

    @model_validator(mode="after")
    def _has_one_kind_of_socket(self) -> Self:
        if self.devices and self.connect_ports:
            raise ValueError("a child has either devices or ports")
        return self

    @classmethod
    def strict(
        cls,
        *,
        readable: Sequence[str] = (),
        writable: Sequence[str] = (),
        may_pin_threads: bool = False,
        require: bool = False,
    ) -> "Confinement":
        """Confine code of others, which may start neither processes nor programs."""
        return cls(readable=tuple(readable), writable=tuple(writable), may_pin_threads=may_pin_threads, require=require)

    @classmethod
    def fork_server(
        cls, *, readable: Sequence[str] = (), writable: Sequence[str] = (), require: bool = False
    ) -> "Confinement":
        """Confine a child that becomes a fork server. Its children can have no more permissions than it has."""
        return cls(
            readable=tuple(readable),
            writable=tuple(writable),
            may_fork=True,
            may_pin_threads=True,
            require=require,
        )

    @classmethod
    def compiler(cls, folder: str, *, readable: Sequence[str] = (), require: bool = False) -> "Confinement":
        """Confine a child that runs the system's compiler and linker and writes to ``folder``."""
        return cls(readable=tuple(readable), writable=(folder,), may_fork=True, may_exec=True, require=require)

    def exceeds(self, outer: "Confinement") -> str | None:
        """Which permission a process confined to ``outer`` cannot grant, in words; None when it can grant all."""
        if self.may_exec and not outer.may_exec:
            return "its fork server may not run programs"
        if self.may_pin_threads and not outer.may_pin_threads:
            return "its fork server may not choose the cores of threads"
        if not set(self.connect_ports) <= set(outer.connect_ports):
            return f"its fork server may not connect to {self.connect_ports}"
        for path in (*self.devices, *self.programs):
            if not _is_within(path, (*outer.devices, *outer.programs)):
                return f"its fork server was not given {path}"
        for path in self.writable:
            if not _is_within(path, outer.writable):
                return f"its fork server may not write {path}"
        for path in self.readable:
            if not _is_within(path, (*outer.readable, *outer.writable)):
                return f"its fork server was not given {path} to read"
        return None

    @property
    def granted(self) -> Granted:
        """What decides which system calls the child may make."""
        return Granted(
            may_fork=self.may_fork,
            may_exec=self.may_exec,
            may_connect=bool(self.connect_ports),
            may_control_devices=bool(self.devices),
            may_pin_threads=self.may_pin_threads,
        )

    @property
    def has_paths_of_its_own(self) -> bool:
        """Whether this child has files, folders or ports of its own besides those that every child may read."""
        return bool(self.readable or self.writable or self.programs or self.devices or self.connect_ports)


def _is_within(path: str, folders: Sequence[str]) -> bool:
    return any(PurePath(path).is_relative_to(folder) for folder in folders)
