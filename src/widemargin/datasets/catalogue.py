"""The data sets that experiments and examples use: their files, and whether these are there."""

from pathlib import Path
from typing import NamedTuple

from widemargin.datasets.a9a import ENDINGS
from widemargin.datasets.a9a import SOURCE as LIBSVM
from widemargin.datasets.covtype import NAMES as COVTYPE
from widemargin.datasets.covtype import SOURCE as COVTYPE_SOURCE
from widemargin.datasets.hierarchies import HIERARCHIES
from widemargin.datasets.hierarchies import SOURCE as HIERARCHIES_SOURCE
from widemargin.datasets.label_sets import SOURCE as LABEL_SETS_SOURCE
from widemargin.datasets.mnist import FILES as MNIST
from widemargin.datasets.mnist import SOURCE as MNIST_SOURCE
from widemargin.datasets.people import PEOPLE_FILES, PEOPLE_SOURCES

__all__ = ["CATALOGUE", "DataSet"]


class DataSet(NamedTuple):
    """A data set.

    Attributes
    ----------
    files : tuple of tuple of str
        The files it needs, each with the names it may have.
    below : str
        The subfolder in which they are looked for after the folder itself.
    source : str
    about : str
    """

    files: tuple[tuple[str, ...], ...]
    below: str
    source: str
    about: str

    def found(self, folder: Path | None) -> list[Path] | None:
        """Its files; None where one is missing."""
        if folder is None:
            return None
        paths = []
        for names in self.files:
            places = (place / name for place in (folder, folder / self.below) for name in names)
            path = next((path for path in places if path.is_file()), None)
            if path is None:
                return None
            paths.append(path)
        return paths


def _packed(*names: str, endings: tuple[str, ...] = ("", ".gz")) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(f"{name}{ending}" for ending in endings) for name in names)


_ABOUT_PEOPLE = {
    "adult": "48,842 people of a census; income above 50,000 dollars; sex, race",
    "credit-card": "30,000 clients of a bank; default of a payment; sex, age",
    "compas": "6,172 defendants; arrest within two years; sex, race",
    "german": "1,000 loans; good or bad; sex, age",
}

CATALOGUE: dict[str, DataSet] = {
    **{
        name: DataSet(_packed(*files), "fairness", PEOPLE_SOURCES[name], _ABOUT_PEOPLE[name])
        for name, files in PEOPLE_FILES.items()
    },
    "a9a": DataSet(_packed("a9a", "a9a.t", endings=ENDINGS), "binary", LIBSVM, "Adult in LIBSVM's binary coding"),
    "ijcnn1": DataSet(_packed("ijcnn1", endings=ENDINGS), "binary", LIBSVM, "49,990 rows of 22 numbers"),
    "covtype": DataSet((COVTYPE,), "binary", COVTYPE_SOURCE, "581,012 patches of forest"),
    "mnist": DataSet(_packed(*MNIST), "mnist", MNIST_SOURCE, "70,000 handwritten digits"),
    "yeast": DataSet(
        _packed("yeast-train.arff", "yeast-test.arff"), "multilabel", LABEL_SETS_SOURCE, "2,417 genes, 14 labels"
    ),
    "rcv1subset1": DataSet(
        _packed("rcv1subset1.libsvm"), "multilabel", LABEL_SETS_SOURCE, "6,000 news stories, 101 topics"
    ),
    **{
        name: DataSet(
            _packed(*(f"{file}.arff" for file in files)), "hierarchical", HIERARCHIES_SOURCE, "labels in a hierarchy"
        )
        for name, files in HIERARCHIES.items()
    },
}
"""Data sets by name; those about people can be written as tables."""
