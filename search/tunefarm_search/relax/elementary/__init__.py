"""Elementary functions of float32 as arithmetic that compilers vectorise."""
