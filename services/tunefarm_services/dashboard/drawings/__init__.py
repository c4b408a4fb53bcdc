"""What pages draw without scripts."""
