"""Any classifier that takes weights, trained to a goal."""
