"""Kernel functions, rows of kernel matrices with a cache and counters, and feature maps."""
