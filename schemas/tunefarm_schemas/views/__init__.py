"""What the API answers beyond the nouns themselves: written by the service, read by its clients."""
