"""A device enrols with a service, polls it, installs over HTTP and reports."""

import errno
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.edge.bundles import bundle, scaled
from tests.edge.conftest import Device
from tests.edge.fleet_server import TOKEN, FleetServer
from tests.edge.repositories import Repository
from tunefarm_edge.command_line import main
from tunefarm_edge.service.agent import Agent
from tunefarm_edge.service.device_config import read_config, read_token
from tunefarm_edge.service.report_spool import ReportSpool
from tunefarm_edge.service.serving import FIRST_WAIT_S, MAX_WAIT_S, Backoff
from tunefarm_edge.trust.http_source import HttpSource
from tunefarm_edge.update import installer
from tunefarm_edge.update.trial import TrialResult, first_inference
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.report import InstallReport


@pytest.fixture
def enrolled(tmp_path: Path, server: FleetServer, repository: Repository) -> Device:
    folder = tmp_path / "device"
    words = ["--root", str(folder), "enrol", "--url", server.url, "--code", "once"]
    assert main([*words, "--name", "camera", "--pinned-root", str(repository.root)]) == 0
    device = Device(folder, repository, read_config(Device(folder, repository, None).root()))
    assert read_token(device.root()) == TOKEN
    assert (folder / "token").stat().st_mode & 0o777 == 0o600
    return device


def serve_once(device: Device) -> int:
    return main(["--root", str(device.folder), "serve", "--once"])


def test_device_installs_over_http_and_reports(enrolled: Device, server: FleetServer, repository: Repository) -> None:
    repository.publish(5, repository.release("scale-2", bundle(2)))
    assert serve_once(enrolled) == 0
    assert enrolled.computed() == scaled(2)
    assert serve_once(enrolled) == 0
    assert [(each.running, each.sequence) for each in server.polls] == [(None, 0), ("scale-2", 5)]
    kinds = [report.body.kind for sent in server.reports for report in sent.reports]
    assert kinds[:2] == ["self_test", "install"]
    assert "latency" in kinds
    assert not enrolled.reports()


def test_broken_download_goes_on_where_it_stopped(
    enrolled: Device, server: FleetServer, repository: Repository, capfd
) -> None:
    repository.publish(5, repository.release("scale-2", bundle(2)))
    server.cut = 3
    for _ in range(3):
        assert serve_once(enrolled) == 1
        assert "unreachable" in capfd.readouterr().out
    serve_once(enrolled)
    assert enrolled.computed() == scaled(2)
    assert len(server.ranges) == 3
    assert all(re.fullmatch(r"bytes=[1-9]\d*-", each) for each in server.ranges)


def test_reports_wait_for_the_service(enrolled: Device, server: FleetServer, repository: Repository, capfd) -> None:
    repository.publish(5, repository.release("scale-2", bundle(2)))
    assert enrolled.update().running == "scale-2"
    server.revoked = True
    serve_once(enrolled)
    assert "Enrol the device again." in capfd.readouterr().out
    waiting = [each.report_id for each in enrolled.reports()]
    assert len(waiting) == 2
    server.revoked = False
    serve_once(enrolled)
    assert [each.report_id for each in server.reports[0].reports] == waiting


def test_used_code_is_refused(tmp_path: Path, server: FleetServer, repository: Repository, capsys) -> None:
    words = ["--root", str(tmp_path / "other"), "enrol", "--url", server.url, "--code", "used"]
    assert main([*words, "--pinned-root", str(repository.root)]) == 1
    assert "Enrol the device again." in capsys.readouterr().err


@pytest.mark.parametrize("url", ["http://farm.example.org/v1/edge", "ftp://127.0.0.1/", "http://127.0.0.1.example.org"])
def test_token_is_never_sent_without_tls(url: str) -> None:
    with pytest.raises(BadInput, match="https"):
        HttpSource(url, TOKEN)


def test_waits_grow_with_jitter() -> None:
    backoff = Backoff()
    waits = [backoff.next_s() for _ in range(20)]
    assert FIRST_WAIT_S / 2 <= waits[0] <= FIRST_WAIT_S
    assert all(MAX_WAIT_S / 2 <= wait <= MAX_WAIT_S for wait in waits[10:])
    assert len(set(waits)) == len(waits)
    backoff.reset()
    assert backoff.next_s() <= FIRST_WAIT_S


def test_wrong_path_of_the_root_uses_up_no_code(tmp_path: Path, server: FleetServer, repository: Repository) -> None:
    words = ["--root", str(tmp_path / "device"), "enrol", "--url", server.url, "--code", "once", "--pinned-root"]
    assert main([*words, str(tmp_path / "missing.json")]) == 2
    assert main([*words, str(repository.root)]) == 0


def test_error_of_the_disk_ends_a_poll_and_not_the_agent(
    enrolled: Device, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.publish(5, repository.release("scale-2", bundle(2)))

    def full(*_: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Agent, "update", full)
    assert serve_once(enrolled) == 1
    monkeypatch.undo()
    assert serve_once(enrolled) == 0


@pytest.fixture
def signal_handlers() -> Iterator[None]:
    """Those of this process return after the test."""
    kept = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    yield
    for each, handler in kept.items():
        signal.signal(each, handler)


@pytest.mark.usefixtures("signal_handlers")
def test_release_that_an_error_left_unconfirmed_is_confirmed_by_the_same_agent(
    enrolled: Device, server: FleetServer, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.publish(5, repository.release("scale-2", bundle(2)))
    errors = [OSError(errno.ENOMEM, "Cannot allocate memory")]
    send = ReportSpool.send

    def first(root: Path) -> TrialResult:
        if errors:
            raise errors.pop()
        return first_inference(root)

    def send_and_stop(spool: ReportSpool, service: object) -> None:
        send(spool, service)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(installer, "first_inference", first)
    monkeypatch.setattr(Backoff, "next_s", lambda _: 0.0)
    monkeypatch.setattr(ReportSpool, "send", send_and_stop)
    assert main(["--root", str(enrolled.folder), "serve"]) == 0
    assert not errors
    installed = [report.body for sent in server.reports for report in sent.reports if report.body.kind == "install"]
    assert [(each.release, each.failure) for each in installed] == [("scale-2", None)]
    assert not (enrolled.folder / "journal.json").exists()


def test_only_reports_that_the_service_cannot_read_are_lost(
    enrolled: Device, server: FleetServer, repository: Repository
) -> None:
    spool = enrolled.agent().spool
    for number in range(5):
        spool.put(InstallReport(release=f"scale-{number}", failure=None))
    server.unknown = b"scale-3"
    repository.publish(5, repository.release("scale-2", bundle(2)))
    serve_once(enrolled)
    sent = [each.body.release for reports in server.reports for each in reports.reports]
    assert sent[:4] == ["scale-0", "scale-1", "scale-2", "scale-4"]
    assert sum(each.dropped for each in server.reports) == 1
    assert not enrolled.reports()
