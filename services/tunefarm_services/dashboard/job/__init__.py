"""One job as its pages show it: its state, its charts, its events."""
