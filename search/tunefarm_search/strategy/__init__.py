"""Ways to choose what to measure next, each behind the protocol in ``protocol``."""
