"""Loaders of data sets that only the papers' experiments use."""
