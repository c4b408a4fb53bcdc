"""The peaks of this host's processor: how fast it computes and reads."""
