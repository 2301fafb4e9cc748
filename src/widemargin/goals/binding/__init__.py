"""Tying a goal to data: sources, memberships, cells of rows and the coefficients of every rate on them."""
