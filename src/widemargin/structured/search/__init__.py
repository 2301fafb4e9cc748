"""Searches for the label with the largest `h g`, each a function over the Oracle protocol that returns a `Found`."""
