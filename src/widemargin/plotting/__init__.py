"""Figures (matplotlib, imported when the first one is drawn)."""
