"""Products with rows of data in blocks (dense or sparse), and coefficients shared by cells of rows."""
