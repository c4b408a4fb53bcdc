"""HTTP requests and responses outside of the routes."""
