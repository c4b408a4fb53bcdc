"""Records in TVM's database format, and readable views of schedules."""
