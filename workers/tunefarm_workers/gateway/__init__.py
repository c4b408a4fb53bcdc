"""Boards with TVM's RPC server only, measured from a gateway host."""
