"""The broker's users can access the keys that the queue of their pool needs, and nothing else."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery

from tests.deploy.confined_redis import PREFIX, ConfinedRedis
from tests.deploy.source import DEPLOY
from tests.servers.redis_server import redis_program
from tunefarm_schemas.farm.broker import Broker


@pytest.fixture(scope="module")
def server() -> Iterator[ConfinedRedis]:
    program = redis_program()
    if program is None:
        pytest.skip("no redis-server on this machine")
    # The path of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="tunefarm-redis-") as folder:
        started = ConfinedRedis(program, Path(folder))
        yield started
        started.stop()


def test_celery_message_passes_from_tuner_to_worker(server):
    taken = []

    def take(body, message) -> None:
        taken.append(body)
        message.ack()

    apps = {user: Celery("tunefarm", set_as_current=False) for user in ("tuner", "worker")}
    for user, app in apps.items():
        app.conf.update(server.broker(user).celery_configuration())
    with (
        apps["tuner"].connection_for_write() as sending,
        apps["tuner"].amqp.Producer(sending, auto_declare=False) as producer,
    ):
        apps["tuner"].send_task("measure", args=({"n": 1},), queue="q", producer=producer, retry=False)
    with apps["worker"].connection_for_read() as receiving:
        queue = apps["worker"].amqp.queues.select_add("q")
        with receiving.Consumer(queue, callbacks=[take], accept=["json"]):
            receiving.drain_events(timeout=60)
    assert taken[0][0] == [{"n": 1}]


def test_replies_and_cancellations_are_delivered(server):
    tuner, worker = server.client("tuner"), server.client("worker")
    listening = worker.pubsub()
    listening.subscribe(f"{PREFIX}cancellations")
    worker.xadd(f"{PREFIX}replies.1", {"m": "x"})
    ((_, entries),) = tuner.xread({f"{PREFIX}replies.1": "0-0"})
    tuner.xdel(f"{PREFIX}replies.1", entries[0][0])
    tuner.publish(f"{PREFIX}cancellations", "x")
    assert tuner.info("server")["run_id"]
    assert tuner.set(f"{PREFIX}farm.1", "x", ex=60, get=True) is None
    listening.close()


@pytest.mark.parametrize("user", ["tuner", "worker"])
@pytest.mark.parametrize(
    "command",
    [
        ("GET", "another.key"),
        ("LPUSH", "another.queue", "x"),
        ("PUBLISH", "another.channel", "x"),
        ("KEYS", "*"),
        ("FLUSHALL",),
        ("CONFIG", "GET", "*"),
        ("ACL", "LIST"),
        ("CLIENT", "LIST"),
        ("MONITOR",),
        ("SHUTDOWN",),
        ("EVAL", "return redis.call('GET', KEYS[1])", "1", "another.key"),
    ],
    ids=lambda command: command[0].lower(),
)
def test_other_broker_commands_are_denied(server, user, command):
    with pytest.raises(redis.exceptions.ResponseError, match=r"(?i)no permissions|NOPERM|can't access"):
        server.client(user).execute_command(*command)


def test_probe_user_can_only_ping(server):
    probe = server.client("probe")
    assert probe.ping()
    with pytest.raises(redis.exceptions.NoPermissionError):
        probe.get(f"{PREFIX}farm.1")


def test_broker_requires_a_password(server):
    with pytest.raises(redis.exceptions.AuthenticationError):
        redis.Redis(unix_socket_path=str(server.socket)).ping()


def test_broker_requires_verified_tls(free_port, tmp_path):
    program = redis_program()
    if program is None or not speaks_tls(program):
        pytest.skip("no redis-server with TLS on this machine")
    made = [sys.executable, DEPLOY / "make-certificates", "--folder", tmp_path]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    server = ConfinedRedis(program, tmp_path, free_port)
    try:
        account = f"tuner:{server.passwords['TUNER']}@127.0.0.1:{free_port}/0?ssl_cert_reqs=required"
        broker = Broker.at(f"rediss://{account}&ssl_ca_certs={tmp_path}/ca.pem", PREFIX)
        assert redis.Redis.from_url(broker.redis_url()).set(f"{PREFIX}x", "1")
        with pytest.raises(redis.exceptions.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            redis.Redis.from_url(f"rediss://{account}").ping()
        with pytest.raises(redis.exceptions.ConnectionError):
            redis.Redis.from_url(f"redis://{account.partition('?')[0]}").ping()
    finally:
        server.stop()


def speaks_tls(program: Path) -> bool:
    tried = subprocess.run([program, "--port", "0", "--tls-port", "x"], capture_output=True, text=True, timeout=60)
    # The server fails to start in both cases; without TLS it does not know the directive.
    return "Bad directive" not in tried.stdout + tried.stderr
