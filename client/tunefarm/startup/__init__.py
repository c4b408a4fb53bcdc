"""Startup of a command: the installation, and the fork server with TVM loaded."""
