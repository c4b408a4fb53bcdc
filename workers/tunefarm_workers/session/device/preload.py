"""Modules that a fork server loads for device sessions."""

from tunefarm_workers.child import preload as of_processor


def preload() -> None:
    """Load the modules that children import. Opens no device and runs no kernel."""
    of_processor.preload()
