"""Types of elements that TVM's code generation for CPUs lacks, or has wrong."""
