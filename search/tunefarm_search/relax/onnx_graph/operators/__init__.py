"""Converters of Relax operators to nodes of ONNX, by kind."""
