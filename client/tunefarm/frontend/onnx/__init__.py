"""ONNX models: their files, their sizes, what of them is constant, and their operators in Relax."""
