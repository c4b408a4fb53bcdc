"""Repositories that wait for no disk."""

from tests.edge.conftest import unsynced

__all__ = ["unsynced"]
