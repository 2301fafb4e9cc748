"""What a goal is made of: rates, populations, expressions, constraints and bundles; free of data."""
