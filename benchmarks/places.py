"""Where the project and its recorded results are."""

from pathlib import Path

__all__ = ["RESULTS", "ROOT"]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
