"""Compiled loops of the structural SVM: exact and heuristic argmax of one example."""
