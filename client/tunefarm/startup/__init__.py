"""How a command starts: the installation, and the fork server with TVM loaded."""
