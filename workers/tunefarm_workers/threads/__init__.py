"""Which core each thread of a kernel runs on, and whether anything moves it."""
