"""What is so for every test."""

import gc

gc.disable()


def pytest_collection_finish() -> None:
    """What was loaded stays: the garbage collector, which was not there, need never look through it."""
    gc.freeze()
    gc.enable()
