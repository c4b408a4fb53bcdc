"""TFLite models: their flatbuffer, checked, and their operators in Relax."""
