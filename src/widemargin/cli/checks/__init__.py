"""A goals file against its table, and the first goals file for a table."""
