"""Selects where the record commands work: this machine's store, or a service."""

from collections.abc import Iterator
from contextlib import contextmanager

from tunefarm.http.service_address import is_service_named
from tunefarm.records.record_place import RecordPlace
from tunefarm.startup.prestarted_fork_server import take_fork_server


@contextmanager
def record_place(api: str | None, *, remote: bool, needs_tvm: bool = False) -> Iterator[RecordPlace]:
    """The service of ``api`` or the environment; the default service if ``remote``; else this machine's store."""
    fork_server = take_fork_server() if needs_tvm else None
    if remote or is_service_named(api):
        from tunefarm.client import Client
        from tunefarm.records.remote_records import RemoteRecords

        with Client(api, fork_server=fork_server) as client:
            yield RemoteRecords(client)
    else:
        from tunefarm.local.machine import LocalMachine
        from tunefarm.records.local_records import LocalRecords

        with LocalMachine(fork_server=fork_server) as machine:
            yield LocalRecords(machine)
