"""Settings of a worker from the environment, and the errors for invalid ones."""

import os

import pytest
from pydantic import SecretStr

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.broker import Broker
from tunefarm_workers.worker.settings import WorkerSettings

USABLE = sorted(os.sched_getaffinity(0))


def test_lane_name_has_host_and_cores():
    assert WorkerSettings(worker_cores=str(USABLE[0])).name().endswith(f"/{USABLE[0]}")
    assert WorkerSettings(worker_name="board room").name() == "board room"


def test_cores_default_to_usable_cores():
    assert WorkerSettings(worker_cores=f"{USABLE[0]}").cores() == (USABLE[0],)
    assert WorkerSettings(worker_cores="").cores() == tuple(USABLE)


@pytest.mark.parametrize("cores", ["5000", "two", "1-", "-1", ","])
def test_invalid_cores_are_rejected(cores: str):
    with pytest.raises(BadInput, match="--cores"):
        WorkerSettings(worker_cores=cores).cores()


def test_missing_broker_error_names_setting():
    with pytest.raises(BadInput, match="TUNEFARM_BROKER_URL"):
        WorkerSettings(broker_url=None).broker()


@pytest.mark.parametrize("url", ["", "host:6379", "http://host", "amqp://host", "redis://", "unix://"])
def test_broker_url_must_be_redis(url: str):
    with pytest.raises(BadInput, match="redis://host"):
        Broker.at(url)


def test_settings_hide_secrets():
    settings = WorkerSettings(broker_url=SecretStr("rediss://lane:hidden@host:6380/0"))
    assert "hidden" not in repr(settings)
    assert "hidden" not in repr(settings.broker())


def test_tls_is_verified_by_default():
    assert "ssl_cert_reqs=required" in Broker.at("rediss://host:6380/0").celery_url()
    assert "ssl_cert_reqs=none" in Broker.at("rediss://host:6380/0?ssl_cert_reqs=none").celery_url()


def test_celery_and_redis_use_same_socket():
    broker = Broker.at("unix:///run/redis.sock?db=3")
    assert broker.celery_url() == "redis+socket:///run/redis.sock?virtual_host=3"
    assert broker.redis_url() == "unix:///run/redis.sock?db=3"
