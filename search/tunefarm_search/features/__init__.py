"""What is known of a schedule without compiling it."""
