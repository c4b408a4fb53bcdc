"""Single operators: ours against torch, onnxruntime and OpenVINO."""
