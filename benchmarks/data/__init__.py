"""Data sets and drawn families of the benchmarks, and which half of them constants are chosen on."""
