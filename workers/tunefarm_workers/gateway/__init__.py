"""Boards that only speak TVM's RPC, measured from a host in front of them."""
