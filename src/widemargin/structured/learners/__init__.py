"""Learners of structural SVMs: how the weights are found, each a function over a `StructuredProblem`."""
