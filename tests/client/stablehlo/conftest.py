import importlib.util

import pytest


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """These tests import JAX: the run without models does not wait for it, and does not need it."""
    without_models = "not models" in config.option.markexpr
    return True if without_models or importlib.util.find_spec("jax") is None else None
