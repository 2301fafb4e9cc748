"""Oracles of the ready-made models: exact dynamic programmes, tables, relaxations, local search."""
