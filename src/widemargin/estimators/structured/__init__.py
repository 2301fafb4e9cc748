"""Structural SVMs as estimators: the general one, the ready-made ones, searches and scorers."""
