"""What the environment says about a worker, and what is wrong with it in words."""

import os

import pytest
from pydantic import SecretStr

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.broker import Broker
from tunefarm_workers.worker.settings import WorkerSettings

USABLE = sorted(os.sched_getaffinity(0))


def test_a_lane_is_called_after_its_host_and_cores():
    assert WorkerSettings(worker_cores=str(USABLE[0])).name().endswith(f"/{USABLE[0]}")
    assert WorkerSettings(worker_name="board room").name() == "board room"


def test_cores_are_some_that_the_process_may_use():
    assert WorkerSettings(worker_cores=f"{USABLE[0]}").cores() == (USABLE[0],)
    assert WorkerSettings(worker_cores="").cores() == tuple(USABLE)


@pytest.mark.parametrize("cores", ["5000", "two", "1-", "-1", ","])
def test_other_cores_are_refused(cores: str):
    with pytest.raises(BadInput, match="--cores"):
        WorkerSettings(worker_cores=cores).cores()


def test_a_worker_without_a_broker_is_told_what_to_set():
    with pytest.raises(BadInput, match="TUNEFARM_BROKER_URL"):
        WorkerSettings(broker_url=None).broker()


@pytest.mark.parametrize("url", ["", "host:6379", "http://host", "amqp://host", "redis://", "unix://"])
def test_only_redis_is_a_broker(url: str):
    with pytest.raises(BadInput, match="redis://host"):
        Broker.at(url)


def test_secrets_are_not_shown():
    settings = WorkerSettings(broker_url=SecretStr("rediss://lane:hidden@host:6380/0"))
    assert "hidden" not in repr(settings)
    assert "hidden" not in repr(settings.broker())


def test_tls_is_verified_unless_the_url_says_otherwise():
    assert "ssl_cert_reqs=required" in Broker.at("rediss://host:6380/0").celery_url()
    assert "ssl_cert_reqs=none" in Broker.at("rediss://host:6380/0?ssl_cert_reqs=none").celery_url()


def test_both_ends_reach_the_same_socket():
    broker = Broker.at("unix:///run/redis.sock?db=3")
    assert broker.celery_url() == "redis+socket:///run/redis.sock?virtual_host=3"
    assert broker.redis_url() == "unix:///run/redis.sock?db=3"
