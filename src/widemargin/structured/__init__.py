"""Structural SVMs: models, losses, oracles, searches and learners, each a protocol that a user can implement."""
