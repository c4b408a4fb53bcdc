"""TVM's JSON database in and out of the store."""
