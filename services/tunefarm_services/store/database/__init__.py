"""One SQL database: connections, transactions, schema."""
