"""Properties of a schedule that are known without compiling it."""
