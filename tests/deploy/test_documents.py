"""Commands in the documents for operators refer to existing services, options and settings."""

import re
import shlex
import subprocess
import sys

import pytest
import yaml

from tests.deploy.source import DEPLOY, compose, operations, shown_lines
from tests.house.command_help import OPTION, assert_exists
from tunefarm_schemas.farm.broker import Broker

SERVICES = compose()["services"]
# Options of `docker compose` with a value.
VALUED = {"--volume", "--build-arg", "--profile"}
# Variables that an image or a host sets itself.
OWN = {
    "TUNEFARM_HOME",
    "TUNEFARM_LOG_FORMAT",
    "TUNEFARM_METRICS_LISTEN",
    "TUNEFARM_TRACES_ENDPOINT",
    "TUNEFARM_WORKER_ALLOW_MISSING_CONFINEMENT",
}


def words_of(line: str) -> list[str]:
    """The words of a command without its options, up to a pipe."""
    words, found = iter(shlex.split(line.partition(" | ")[0])), []
    for word in words:
        if word in VALUED:
            next(words)
        elif not word.startswith("-"):
            found.append(word)
    return found


def lines_of(*begin: str) -> list[str]:
    return [line for line in shown_lines() if line.split()[: len(begin)] == list(begin)]


@pytest.mark.parametrize("line", lines_of("docker", "compose"))
def test_documented_compose_services_exist(line):
    _, _, verb, *words = words_of(line)
    named = words[:1] if verb in {"run", "exec"} else words
    assert set(named) <= set(SERVICES)


def commands_in_containers() -> list[str]:
    """Commands that replace the default command of a container, pod or unit."""
    found = []
    for line in shown_lines():
        match = re.search(r"docker compose run .*\bapi (.+)$|(?:-- |/bin/)tunefarm (.+)$", line)
        if match is not None:
            found.append(match[1] or match[2])
        lists = re.findall(r'\["tunefarm", (.+?)\]', line)
        found += [" ".join(shlex.split(words.replace(",", " "))) for words in lists]
    return sorted(set(found))


@pytest.mark.parametrize("command", commands_in_containers())
def test_documented_container_command_exists(command):
    assert_exists(f"tunefarm {command}")


def commands_that_make_secrets() -> list[str]:
    return sorted({line.removeprefix("sudo ") for line in shown_lines() if "deploy/make-" in line})


@pytest.mark.parametrize("line", commands_that_make_secrets())
def test_documented_secret_options_exist(line):
    command = [sys.executable, str(DEPLOY / line.split()[0].removeprefix("deploy/")), "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert set(OPTION.findall(line)) <= set(OPTION.findall(shown))


def variables_of_a_worker_elsewhere() -> dict[str, str]:
    (block,) = re.findall(r"^```\n(TUNEFARM_BROKER_URL=.*?)^```", operations(), re.MULTILINE | re.DOTALL)
    return dict(line.partition("=")[::2] for line in block.splitlines())


def test_remote_worker_gets_all_variables():
    given = variables_of_a_worker_elsewhere()
    assert given.keys() == SERVICES["worker"]["environment"].keys() - OWN
    ours = SERVICES["worker"]["environment"]
    assert given["TUNEFARM_BROKER_PREFIX"] == ours["TUNEFARM_BROKER_PREFIX"]
    assert Broker.at(given["TUNEFARM_BROKER_URL"], given["TUNEFARM_BROKER_PREFIX"]).redis_url()


def test_servers_of_remote_worker_are_certified_and_published():
    given = variables_of_a_worker_elsewhere()
    (line,) = [line for line in shown_lines() if "--name redis=" in line]
    for server, url in (("redis", given["TUNEFARM_BROKER_URL"]), ("objects", given["AWS_ENDPOINT_URL"])):
        host = re.search(r"(?:@|//)([a-z.]+):\d+", url)[1]
        assert f"--name {server}={host}" in line
        (port,) = SERVICES[server]["ports"]
        listen = re.match(r"\$\{([A-Z_]+):-", port)[1]
        assert any(line.startswith(f"echo {listen}=") for line in shown_lines())


def test_documented_network_override_is_valid():
    (block,) = re.findall(r"^```yaml\n(.*?)^```", operations(), re.MULTILINE | re.DOTALL)
    override = yaml.safe_load(block)["services"]
    assert set(override) == {name for name in ("tuner", "worker") if "outside" not in SERVICES[name]["networks"]}
    for name, service in override.items():
        assert set(SERVICES[name]["networks"]) < set(service["networks"]) <= set(compose()["networks"])


def test_drill_sets_every_restore_destination():
    drill = operations().partition("**Drill")[2].partition("```sh\n")[2].partition("```")[0]
    exported, _, rest = drill.partition("tunefarm db restore")
    assert rest
    assert set(re.findall(r"^export (\w+)=", exported, re.MULTILINE)) == {
        "TUNEFARM_HOME",
        "TUNEFARM_DATABASE_URL",
        "TUNEFARM_BLOB_URL",
    }


def test_documented_password_change_reads_env(tmp_path):
    (line,) = [line for line in shown_lines() if "ALTER ROLE" in line]
    env = "TUNEFARM_BROKER_PROBE_PASSWORD=z\nTUNEFARM_POSTGRES_PASSWORD=x-_Y9\nTUNEFARM_WORKER_CPUS=2-7\n"
    (tmp_path / ".env").write_text(env, encoding="utf-8")
    sed = ["sh", "-c", line.partition(" | ")[0]]
    printed = subprocess.run(sed, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert printed.stdout == "ALTER ROLE tunefarm PASSWORD 'x-_Y9';\n"
