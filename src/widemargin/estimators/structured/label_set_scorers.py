"""Scores of label sets as scikit-learn's scorers, with 0/0 settled."""

from typing import Any

from sklearn.metrics import f1_score, hamming_loss, jaccard_score, make_scorer

__all__ = ["label_set_scorers"]

label_set_scorers: dict[str, Any] = {
    "jaccard": make_scorer(jaccard_score, average="samples", zero_division=1.0),
    "hamming": make_scorer(hamming_loss, greater_is_better=False),
    "micro_f1": make_scorer(f1_score, average="micro", zero_division=0.0),
    "macro_f1": make_scorer(f1_score, average="macro", zero_division=0.0),
    "example_f1": make_scorer(f1_score, average="samples", zero_division=1.0),
}
"""For `scoring=` of scikit-learn's searches and of `structural_search`, one of them or all.

"jaccard"
    Mean over the examples of |both| / |either| (the papers' Acc); 1 for an empty set that is predicted to be empty.
"hamming"
    Minus the share of wrong labels.
"micro_f1", "macro_f1"
    F1 over all decisions; mean over the labels, 0 for a label that is never there and never predicted.
"example_f1"
    Mean of F1 over the examples; 1 for an empty set that is predicted to be empty.
"""
