"""What x86 needs between a scheduled function and code generation."""
