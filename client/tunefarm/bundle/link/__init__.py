"""Links bundles to one library, for devices of this architecture and of others."""
