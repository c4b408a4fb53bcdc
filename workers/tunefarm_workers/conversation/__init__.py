"""What a lane and its children say to each other, and how it listens."""
