"""The ``tunefarm`` command."""
