"""Attention as ONNX and com.microsoft define it."""
