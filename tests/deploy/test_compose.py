"""docker-compose.yml keeps the specification and what it promises about secrets, users and networks."""

import importlib.util
import json
from pathlib import Path

import jsonschema
import pytest

from tests.deploy.source import ROOT, VARIABLE, compose

SERVICES = compose()["services"]
LONG_RUNNING = {name: service for name, service in SERVICES.items() if service["restart"] != "no"}


def each(services):
    return pytest.mark.parametrize("name", sorted(services))


def test_it_is_valid_by_the_compose_specification():
    package = importlib.util.find_spec("check_jsonschema")
    schema = Path(package.origin).parent / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.validate(compose(), json.loads(schema.read_text(encoding="utf-8")))


def test_all_roles_of_a_farm_are_there():
    assert set(SERVICES) >= {"api", "tuner", "worker", "postgres", "redis", "objects"}


@each(SERVICES)
def test_a_service_has_no_more_rights_than_it_needs(name):
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
def test_a_service_that_stays_says_whether_it_is_well_and_has_limits(name):
    service = LONG_RUNNING[name]
    assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert service["mem_limit"]
    assert service["pids_limit"]


def test_no_secret_has_a_default():
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    secrets = [match for match in VARIABLE.finditer(text) if "PASSWORD" in match[1] or "SECRET" in match[1]]
    assert secrets
    assert [match[1] for match in secrets if match[2] != "?"] == []
    for service in SERVICES.values():
        for variable, value in service.get("environment", {}).items():
            if "PASSWORD" in variable or "SECRET" in variable or variable == "REDISCLI_AUTH":
                assert value is None or VARIABLE.fullmatch(value), variable


def test_what_every_service_names_is_declared():
    document = compose()
    for service in SERVICES.values():
        assert set(service["networks"]) <= set(document["networks"])
        assert set(service.get("depends_on", {})) <= set(SERVICES)
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            made = source.startswith("./deploy/secrets/")
            assert source in document["volumes"] or made or (ROOT / source).is_file(), mount


def test_only_servers_that_other_hosts_need_are_published_and_on_loopback_unless_told():
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert set(published) == {"api", "redis", "objects"}
    assert all(":-127.0.0.1}:" in port for ports in published.values() for port in ports)


def test_servers_are_spoken_with_over_tls_by_users_of_their_own():
    for name in ("api", "tuner", "migrate"):
        environment = SERVICES[name]["environment"]
        assert "sslmode=verify-full" in environment["TUNEFARM_DATABASE_URL"]
        assert environment["TUNEFARM_BROKER_URL"].startswith("rediss://tuner:")
    worker = SERVICES["worker"]["environment"]
    assert worker["TUNEFARM_BROKER_URL"].startswith("rediss://worker:")
    assert "TUNEFARM_DATABASE_URL" not in worker
    assert any("--tls-certificate" in word for word in SERVICES["api"]["command"])


def test_what_is_compiled_may_be_loaded_from_the_scratch_folder():
    for name in ("api", "tuner", "worker"):
        scratch = next(mount for mount in SERVICES[name]["tmpfs"] if mount.startswith("/tmp:"))
        assert ",exec," in scratch


def test_the_images_that_are_built_have_their_container_files():
    for name in ("api", "tuner", "worker", "migrate"):
        assert (ROOT / SERVICES[name]["build"]["dockerfile"]).is_file()
