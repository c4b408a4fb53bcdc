"""The store with many records, and recorded measurements to try strategies on."""
