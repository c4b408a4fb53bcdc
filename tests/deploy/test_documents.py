"""What the documents tell an operator to type names what is there."""

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
# What `docker compose` takes a value for.
VALUED = {"--volume", "--build-arg", "--profile"}
# What an image or a host says for itself.
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
def test_a_compose_command_names_services_that_exist(line):
    _, _, verb, *words = words_of(line)
    named = words[:1] if verb in {"run", "exec"} else words
    assert set(named) <= set(SERVICES)


def commands_in_containers() -> list[str]:
    """What runs in a container, a pod or a unit in place of its own command."""
    found = []
    for line in shown_lines():
        match = re.search(r"docker compose run .*\bapi (.+)$|(?:-- |/bin/)tunefarm (.+)$", line)
        if match is not None:
            found.append(match[1] or match[2])
        lists = re.findall(r'\["tunefarm", (.+?)\]', line)
        found += [" ".join(shlex.split(words.replace(",", " "))) for words in lists]
    return sorted(set(found))


@pytest.mark.parametrize("command", commands_in_containers())
def test_a_command_in_a_container_exists_with_its_options(command):
    assert_exists(f"tunefarm {command}")


def commands_that_make_secrets() -> list[str]:
    return sorted({line.removeprefix("sudo ") for line in shown_lines() if "deploy/make-" in line})


@pytest.mark.parametrize("line", commands_that_make_secrets())
def test_a_command_that_makes_secrets_has_the_options_that_are_shown(line):
    command = [sys.executable, str(DEPLOY / line.split()[0].removeprefix("deploy/")), "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert set(OPTION.findall(line)) <= set(OPTION.findall(shown))


def variables_of_a_worker_elsewhere() -> dict[str, str]:
    (block,) = re.findall(r"^```\n(TUNEFARM_BROKER_URL=.*?)^```", operations(), re.MULTILINE | re.DOTALL)
    return dict(line.partition("=")[::2] for line in block.splitlines())


def test_a_worker_of_another_host_is_given_all_that_one_beside_the_farm_reads():
    given = variables_of_a_worker_elsewhere()
    assert given.keys() == SERVICES["worker"]["environment"].keys() - OWN
    ours = SERVICES["worker"]["environment"]
    assert given["TUNEFARM_BROKER_PREFIX"] == ours["TUNEFARM_BROKER_PREFIX"]
    assert Broker.at(given["TUNEFARM_BROKER_URL"], given["TUNEFARM_BROKER_PREFIX"]).redis_url()


def test_the_servers_that_it_reaches_are_certified_and_published():
    given = variables_of_a_worker_elsewhere()
    (line,) = [line for line in shown_lines() if "--name redis=" in line]
    for server, url in (("redis", given["TUNEFARM_BROKER_URL"]), ("objects", given["AWS_ENDPOINT_URL"])):
        host = re.search(r"(?:@|//)([a-z.]+):\d+", url)[1]
        assert f"--name {server}={host}" in line
        (port,) = SERVICES[server]["ports"]
        listen = re.match(r"\$\{([A-Z_]+):-", port)[1]
        assert any(line.startswith(f"echo {listen}=") for line in shown_lines())


def test_the_way_out_that_tuner_and_worker_may_be_given_exists():
    (block,) = re.findall(r"^```yaml\n(.*?)^```", operations(), re.MULTILINE | re.DOTALL)
    override = yaml.safe_load(block)["services"]
    assert set(override) == {name for name in ("tuner", "worker") if "outside" not in SERVICES[name]["networks"]}
    for name, service in override.items():
        assert set(SERVICES[name]["networks"]) < set(service["networks"]) <= set(compose()["networks"])


def test_the_drill_names_every_place_that_a_restore_writes_to():
    drill = operations().partition("**Drill")[2].partition("```sh\n")[2].partition("```")[0]
    exported, _, rest = drill.partition("tunefarm db restore")
    assert rest
    assert set(re.findall(r"^export (\w+)=", exported, re.MULTILINE)) == {
        "TUNEFARM_HOME",
        "TUNEFARM_DATABASE_URL",
        "TUNEFARM_BLOB_URL",
    }


def test_postgresql_is_told_the_password_that_is_in_env(tmp_path):
    (line,) = [line for line in shown_lines() if "ALTER ROLE" in line]
    env = "TUNEFARM_BROKER_PROBE_PASSWORD=z\nTUNEFARM_POSTGRES_PASSWORD=x-_Y9\nTUNEFARM_WORKER_CPUS=2-7\n"
    (tmp_path / ".env").write_text(env, encoding="utf-8")
    sed = ["sh", "-c", line.partition(" | ")[0]]
    told = subprocess.run(sed, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "ALTER ROLE tunefarm PASSWORD 'x-_Y9';\n"
