"""The processor that a gateway reports for its board."""

import pytest

from tunefarm_schemas.farm.processor import Processor
from tunefarm_workers.device.cpu_identity import own_processor
from tunefarm_workers.gateway.gateway_farm import processor_of
from tunefarm_workers.gateway.gateway_settings import GatewaySettings


@pytest.mark.parametrize(
    ("target", "architecture"),
    [
        ('{"kind":"llvm","mtriple":"aarch64-linux-gnu","mcpu":"cortex-a72","num-cores":4}', "aarch64"),
        ('{"kind":"llvm","mtriple":"armv7l-linux-gnueabihf","num-cores":4}', "arm"),
        ('{"kind":"llvm","num-cores":2}', own_processor().architecture),
    ],
)
def test_board_processor_is_declared_or_that_of_its_target(target: str, architecture: str) -> None:
    assert processor_of(GatewaySettings(target=target, board="a board")) == Processor(architecture=architecture)
