"""Audits that laws and standards ask for, each by its own definitions."""
