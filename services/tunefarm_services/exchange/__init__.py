"""Import and export of TVM's JSON database."""
