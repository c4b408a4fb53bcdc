"""The search of one exploration: a confined child and the session that feeds it."""
