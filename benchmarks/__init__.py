"""Benchmarks: what the library reaches, beside its peers, on the data of the papers (see README.md here)."""
