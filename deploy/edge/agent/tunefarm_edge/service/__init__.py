"""The agent as a whole: its settings, its reports, its loop."""
