"""docker-compose.yml is valid, and restricts secrets, users and networks."""

import importlib.util
import json
import re
from pathlib import Path, PurePosixPath

import jsonschema
import pytest

from tests.deploy.source import DEPLOY, ROOT, VARIABLE, compose, interpolated

SERVICES = compose()["services"]
LONG_RUNNING = {name: service for name, service in SERVICES.items() if service["restart"] != "no"}


def each(services):
    return pytest.mark.parametrize("name", sorted(services))


def test_compose_file_matches_the_specification():
    package = importlib.util.find_spec("check_jsonschema")
    schema = Path(package.origin).parent / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.validate(compose(), json.loads(schema.read_text(encoding="utf-8")))


@each(SERVICES)
def test_service_has_minimal_rights(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "cap_add" not in service
    assert "privileged" not in service
    user, _, group = service["user"].partition(":")
    assert int(user) > 0
    assert int(group) > 0


@each(LONG_RUNNING)
def test_long_running_service_has_health_check_and_limits(name):
    service = LONG_RUNNING[name]
    assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert service["mem_limit"]
    assert service["pids_limit"]


def test_secrets_have_no_default():
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    secrets = [match for match in VARIABLE.finditer(text) if "PASSWORD" in match[1] or "SECRET" in match[1]]
    assert secrets
    assert [match[1] for match in secrets if match[2] != "?"] == []
    for service in SERVICES.values():
        for variable, value in service.get("environment", {}).items():
            if "PASSWORD" in variable or "SECRET" in variable or variable == "REDISCLI_AUTH":
                assert value is None or VARIABLE.fullmatch(value), variable


def test_referenced_networks_services_and_volumes_exist():
    document = compose()
    for service in SERVICES.values():
        assert set(service["networks"]) <= set(document["networks"])
        assert set(service.get("depends_on", {})) <= set(SERVICES)
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            made = source.startswith("./deploy/secrets/")
            assert source in document["volumes"] or made or (ROOT / source).is_file(), mount


def test_published_ports_are_on_loopback_by_default():
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert set(published) == {"api", "redis", "objects"}
    assert all(":-127.0.0.1}:" in port for ports in published.values() for port in ports)


def test_services_use_tls_and_separate_users():
    for name in ("api", "tuner", "migrate"):
        environment = SERVICES[name]["environment"]
        assert "sslmode=verify-full" in environment["TUNEFARM_DATABASE_URL"]
        assert environment["TUNEFARM_BROKER_URL"].startswith("rediss://tuner:")
    worker = SERVICES["worker"]["environment"]
    assert worker["TUNEFARM_BROKER_URL"].startswith("rediss://worker:")
    assert "TUNEFARM_DATABASE_URL" not in worker
    assert any("--tls-certificate" in word for word in SERVICES["api"]["command"])


def container_file(name: str) -> str:
    return (DEPLOY / "containers" / f"{name}.Dockerfile").read_text(encoding="utf-8")


def folders_of_the_user(name: str) -> set[str]:
    """The folders that the image gives to the user of the containers: a new volume inherits their owner."""
    made = re.search(r"install --directory --owner 10001 --group 10001 --mode 0700 (.+)", container_file(name))
    return set(made[1].split())


def test_worker_folder_allows_execution_and_persists():
    worker, document = SERVICES["worker"], compose()
    home = PurePosixPath(worker["environment"]["TUNEFARM_HOME"])
    scratch = home / "scratch"
    mounts = {PurePosixPath(mount.split(":")[0]): mount for mount in worker["tmpfs"]}
    mounts |= {PurePosixPath(mount.split(":")[1]): mount for mount in worker["volumes"]}
    place = max((path for path in mounts if scratch.is_relative_to(path)), key=lambda path: len(path.parts))
    source, _, options = f"{mounts[place]}:".split(":")[:3]
    # A volume without options is a folder of the host, which allows execution.
    assert document["volumes"][source] == {}
    assert not {"ro", "noexec"} & set(options.split(","))
    assert str(place) in folders_of_the_user("worker")


def test_worker_keeps_its_host_name():
    name = SERVICES["worker"]["hostname"]
    assert interpolated(name, {}) == "tunefarm-worker"
    assert interpolated(name, {"TUNEFARM_HOST_NAME": "farm-2"}) == "farm-2"


def test_worker_requires_full_confinement_by_default():
    environment = SERVICES["worker"]["environment"]
    assert environment.get("TUNEFARM_WORKER_ALLOW_MISSING_CONFINEMENT", "absent") is None


def test_backup_tools_match_postgresql_version():
    text = container_file("service")
    major = re.search(r"^ARG POSTGRESQL_MAJOR=(\d+)$", text, re.MULTILINE)[1]
    assert re.match(r"postgres:(\d+)", interpolated(SERVICES["postgres"]["image"], {}))[1] == major
    own_repository = text.index("/usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y")
    assert text.index("ARG POSTGRESQL_MAJOR") < own_repository < text.index('"postgresql-client-${POSTGRESQL_MAJOR}"')


def test_object_store_volume_belongs_to_its_user():
    made, store = SERVICES["objects-folder"], SERVICES["objects"]
    (mount,) = made["volumes"]
    volume, folder = mount.split(":")
    assert made["image"] == SERVICES["api"]["image"]
    assert made["user"] == store["user"] == "10001:10001"
    assert folder in folders_of_the_user("service")
    # Otherwise the container that is created last determines the owner of the empty volume.
    assert f"{volume}:/data:nocopy" in store["volumes"]
    assert made["profiles"] == store["profiles"]
    assert store["depends_on"] == {"objects-folder": {"condition": "service_completed_successfully"}}


def test_scratch_folder_allows_loading_libraries():
    for name in ("api", "tuner", "worker"):
        scratch = next(mount for mount in SERVICES[name]["tmpfs"] if mount.startswith("/tmp:"))
        assert ",exec," in scratch


def test_built_images_have_container_files():
    for name in ("api", "tuner", "worker", "migrate"):
        assert (ROOT / SERVICES[name]["build"]["dockerfile"]).is_file()
