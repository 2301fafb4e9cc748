"""Exact thresholds for 0/1 rates: one for all rows, one per population, or drawn at random."""
