"""The library without widemargin-papers."""

import sys

import pytest

__all__ = ["hide_papers"]


def hide_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let imports of widemargin-papers fail as if it were not installed."""
    for name in [name for name in sys.modules if name.startswith("widemargin_papers.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "widemargin_papers", None)
