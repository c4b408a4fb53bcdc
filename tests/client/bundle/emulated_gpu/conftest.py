import pytest

from tests.client.bundle.emulated_gpu.emulator import Emulator


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    return Emulator.compiled(tmp_path_factory.mktemp("emulator"))
