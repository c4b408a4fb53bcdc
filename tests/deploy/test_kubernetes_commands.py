"""Commands, settings and probe paths in the manifests match the programs."""

import shlex
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_settings import BaseSettings
from typer.main import get_command

from tests.api.people import caller_of
from tests.deploy.source import Document, kubernetes_objects, operations, pod_specs
from tunefarm.cli.command_line import application
from tunefarm_services.api.application.app import create_app
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.settings import Settings
from tunefarm_services.store import Store
from tunefarm_services.telemetry.metrics import Metrics
from tunefarm_services.telemetry.metrics_server import MetricsServer
from tunefarm_services.telemetry.settings import TelemetrySettings
from tunefarm_services.tuner.service.settings import TunerSettings
from tunefarm_workers.worker.settings import WorkerSettings

CONTAINERS = {container["name"]: container for _, pod in pod_specs() for container in pod["containers"]}
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
SETTINGS: dict[str, tuple[type[BaseSettings], ...]] = {
    "serve": (Settings, TunerSettings, ApiSettings, TelemetrySettings),
    "tuner": (TunerSettings, TelemetrySettings),
    "worker start": (WorkerSettings, Settings, TelemetrySettings),
    "db upgrade": (Settings,),
    "db backup": (Settings,),
}
"""The settings that the process of each command reads."""
BESIDE_THE_SETTINGS = {"worker start": {"TUNEFARM_HOST_NAME"}}
"""Variables that are read outside the settings, by code that needs a host name."""

each_container = pytest.mark.parametrize("name", sorted(CONTAINERS))


def words_of(container: Document) -> list[str]:
    """The arguments of ``tunefarm``, which is the entry point of the image unless the container overrides it."""
    if "command" not in container:
        return [str(word) for word in container["args"]]
    shell, flag, script = container["command"]
    assert (shell, flag) == ("sh", "-c")
    words = shlex.split(script)
    return words[words.index("tunefarm") + 1 :]


def parsed(words: list[str]) -> Any:
    """The context of the innermost command, parsed completely and not executed."""
    command = get_command(application())
    context = command.make_context("tunefarm", list(words))
    while hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, words, parent=context)
    return context


def command_of(name: str) -> str:
    return str(parsed(words_of(CONTAINERS[name])).command_path.removeprefix("tunefarm "))


def variables_of(settings: tuple[type[BaseSettings], ...]) -> set[str]:
    return {f"TUNEFARM_{field.upper()}" for each in settings for field in each.model_fields}


def shared_variables() -> dict[str, dict[str, str]]:
    """The contents of config maps and documented secrets, by name."""
    maps = [each for each in kubernetes_objects() if each["kind"] == "ConfigMap"]
    found = {each["metadata"]["name"]: dict(each["data"]) for each in maps}
    for line in operations().splitlines():
        words = shlex.split(line) if line.startswith("kubectl ") and " secret generic " in line else []
        if words:
            given = [word.removeprefix("--from-literal=").partition("=") for word in words if "--from-literal=" in word]
            found[words[words.index("generic") + 1]] = {name: value for name, _, value in given}
    return found


def sources_of(container: Document) -> Iterator[str]:
    for source in container["envFrom"]:
        (reference,) = source.values()
        yield reference["name"]


@each_container
def test_container_command_is_valid(name: str) -> None:
    assert command_of(name) in SETTINGS


def test_invalid_commands_are_detected() -> None:
    for words in (["serve", "--no-such-option"], ["tuner", "stray"], ["no-such-command"], ["serve", "--port=many"]):
        with pytest.raises(Exception, match=r"(?i)no such|unexpected|valid"):
            parsed(words)


@each_container
def test_container_variables_are_read(name: str) -> None:
    command = command_of(name)
    own = {each["name"] for each in CONTAINERS[name].get("env", ())}
    assert own <= variables_of(SETTINGS[command]) | BESIDE_THE_SETTINGS.get(command, set())


def test_shared_variables_are_read() -> None:
    shared = shared_variables()
    assert {source for container in CONTAINERS.values() for source in sources_of(container)} <= shared.keys()
    for source, variables in shared.items():
        getting = [name for name, container in CONTAINERS.items() if source in sources_of(container)]
        assert getting, source
        read = {variable for name in getting for variable in variables_of(SETTINGS[command_of(name)])}
        assert variables.keys() <= read, source


@each_container
def test_values_of_variables_are_accepted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = shared_variables()
    values = {key: value for source in sources_of(CONTAINERS[name]) for key, value in shared[source].items()}
    values |= {each["name"]: each.get("value", "node-1") for each in CONTAINERS[name].get("env", ())}
    for variable, value in values.items():
        monkeypatch.setenv(variable, value)
    for settings in SETTINGS[command_of(name)]:
        read = settings()
        for field in settings.model_fields:
            if (value := values.get(f"TUNEFARM_{field.upper()}")) is not None:
                found = getattr(read, field)
                assert str(found.get_secret_value() if hasattr(found, "get_secret_value") else found) == value


@each_container
def test_container_ports_match_listen_addresses(name: str) -> None:
    container = CONTAINERS[name]
    ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
    if "https" in ports:
        assert parsed(words_of(container)).params["port"] == ports["https"]
    if "metrics" in ports:
        (listen,) = [each["value"] for each in container["env"] if each["name"] == "TUNEFARM_METRICS_LISTEN"]
        assert listen == f"0.0.0.0:{ports['metrics']}"


@each_container
def test_probes_are_answered(name: str, tmp_path: Path) -> None:
    asked = {(probe["port"], probe["path"]) for probe in probes_of(CONTAINERS[name])}
    store = Store.open(f"sqlite:///{tmp_path}/tunefarm.db", tmp_path / "blobs")
    api = caller_of(create_app(store, ApiSettings(home=tmp_path)))
    with MetricsServer("127.0.0.1:0", Metrics("tuner")) as metrics:
        for port, path in asked:
            if port == "https":
                assert api.get(path).status_code == 200, path
            else:
                with urllib.request.urlopen(metrics.url + path, timeout=10) as answer:
                    assert answer.status == 200
    store.close()


def probes_of(container: Document) -> list[Document]:
    return [container[probe]["httpGet"] for probe in PROBES if probe in container]
