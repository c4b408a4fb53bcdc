"""Integer arithmetic in place of float operators between dequantize and quantize."""
