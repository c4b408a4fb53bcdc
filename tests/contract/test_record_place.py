"""What every place of records keeps: the store of this machine, and a service."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.api.test_over_http import Service
from tests.servers.tuned_home import TUNED, TunedHome, tuned_home
from tunefarm import ApiError, Client
from tunefarm.local.machine import LocalMachine
from tunefarm.records.local_records import LocalRecords
from tunefarm.records.record_place import ModuleQuery, RecordPlace
from tunefarm.records.remote_records import RemoteRecords
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.kernel_library.rules import LibraryRules
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.record import MatchKind, RecordStatus, TuningRecord
from tunefarm_schemas.views.record import CodeForm
from tunefarm_services.settings import Settings
from tunefarm_services.store import LOCAL_TENANT

pytestmark = [pytest.mark.enable_socket, pytest.mark.allow_hosts(["127.0.0.1"])]

QUERY = ModuleQuery(module=TUNED[0], function=None, target=TUNED[2], abi="stable")
PROGRAM = Path(__file__).parents[1] / "client" / "programs" / "matmul.py"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> TunedHome:
    return tuned_home(tmp_path_factory)


@pytest.fixture(scope="module", params=["local", "remote"])
def place(
    request: pytest.FixtureRequest, tuned: TunedHome, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RecordPlace]:
    home = tuned.copied_to(tmp_path_factory.mktemp("place") / "home")
    with LocalMachine(Settings(home=home)) as machine:
        if request.param == "local":
            yield LocalRecords(machine)
            return
        _, token = machine.store.tokens.create(LOCAL_TENANT, "a test's", tuple(Scope))
    with Service(home).running() as service, Client(service.url, token) as client:
        yield RemoteRecords(client)


@pytest.fixture
def record(place: RecordPlace) -> TuningRecord:
    [verified] = place.listed(RecordStatus.VERIFIED, 10)
    return verified


def test_record_is_found_by_status_prefix_and_module(place: RecordPlace, record: TuningRecord) -> None:
    assert record in place.listed(None, 10)
    assert len(place.listed(None, 1)) == 1
    assert place.named(record.record_id) == place.named(record.record_id[:12]) == record
    assert "matmul" in place.workload_name(record)
    assert "T.sblock" in place.code(record, CodeForm.SCHEDULED).text
    best = place.best(QUERY)[0]
    assert (best.match, best.record) == (MatchKind.EXACT, record)


def test_exact_match_requires_protocol_and_device_class(place: RecordPlace) -> None:
    for other in (replace(QUERY, device_class="another"), replace(QUERY, protocol_id="cpu-cold-cache/2")):
        assert place.best(other)[0].match is MatchKind.SAME_WORKLOAD_OTHER_DEVICE


@pytest.mark.parametrize("unknown", ["ffffffffff", "no-such-record"])
def test_unknown_record_is_reported(place: RecordPlace, unknown: str) -> None:
    with pytest.raises((BadInput, ApiError), match=f"no record '{unknown}'"):
        place.named(unknown)


def test_exported_records_are_imported_as_claims(place: RecordPlace, record: TuningRecord, tmp_path: Path) -> None:
    folder = str(tmp_path / "database")
    assert place.export(folder, [record.record_id[:12]]).records == 1
    assert {path.name for path in Path(folder).iterdir()} == {"database_workload.json", "database_tuning_record.json"}
    with (tmp_path / "database" / "database_tuning_record.json").open("a") as records:
        records.write('[0,["cut')
    came, again = place.take_in(folder), place.take_in(folder)
    assert [place.named(each).status for each in came.record_ids] == [RecordStatus.CLAIMED]
    assert len(came.refusals) == came.refused == 1
    assert (again.record_ids, again.already_there) == ((), 1)
    with pytest.raises(BadInput):
        place.take_in(str(tmp_path / "nothing here"))


def test_claim_is_published_once_and_retracted(place: RecordPlace, tmp_path: Path) -> None:
    module = replace(QUERY, module=f"{PROGRAM}:Module")
    claim = place.publish(module, f"{PROGRAM}:schedule_by_hand", 1.0)
    assert (claim.status, claim.source, claim.latency_s) == (RecordStatus.CLAIMED, "published", 1.0)
    (tmp_path / "trace.json").write_text(claim.trace.text)
    assert place.publish(module, str(tmp_path / "trace.json"), 2.0) == claim, "the first claim of a schedule stays"
    place.retract(claim, "a test")
    assert claim.record_id in {each.record_id for each in place.listed(RecordStatus.RETRACTED, 10)}
    with pytest.raises((BadInput, ApiError)):
        place.write_artifact(claim, tmp_path, LibraryRules())


def test_library_is_written_with_its_manifest(place: RecordPlace, record: TuningRecord, tmp_path: Path) -> None:
    artifact_id, library = place.write_artifact(record, tmp_path / "out", LibraryRules())
    assert library.parent == tmp_path / "out"
    assert library.read_bytes().startswith(b"\x7fELF")
    assert artifact_id in (tmp_path / "out" / "manifest.json").read_text()
