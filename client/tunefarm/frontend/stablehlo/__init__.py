"""StableHLO to Relax: a table of converters per operator family, over the MLIR bindings of jaxlib."""
