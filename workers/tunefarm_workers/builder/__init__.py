"""From a schedule to the library that is timed and shipped."""
