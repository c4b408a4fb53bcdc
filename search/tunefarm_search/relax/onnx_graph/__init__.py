"""Parts of Relax functions as ONNX models, which libraries such as onnxruntime and OpenVINO run."""

from tunefarm_search.relax.onnx_graph.model import OnnxRegion, place_weights
from tunefarm_search.relax.onnx_graph.region import onnx_model, unsupported

__all__ = ["OnnxRegion", "onnx_model", "place_weights", "unsupported"]
