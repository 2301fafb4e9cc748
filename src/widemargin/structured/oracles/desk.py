"""The workspace that the oracles of one model share in one thread."""

from widemargin.structured.compiled import Structure, Work, workspace

__all__ = ["Desk"]


class Desk:
    """Holds the arrays of the compiled loops, and knows whose dynamic programme lies in them.

    Parameters
    ----------
    structure : Structure
    seed : int, default=0
        Of the random starts of the greedy search.
    """

    def __init__(self, structure: Structure, seed: int = 0) -> None:
        self._structure = structure
        self._seed = seed
        self._work: Work | None = None
        self._rows = 0
        self.owner: object = None

    def work(self, n_rows: int) -> Work:
        """Arrays for an example of that many rows; whoever changes them calls himself the owner."""
        if self._work is None or n_rows > self._rows:
            self._rows = max(n_rows, 2 * self._rows)
            self._work = workspace(self._structure, self._rows, self._seed)
            self.owner = None
        return self._work
