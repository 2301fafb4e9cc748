"""The data sets that experiments and examples use: their files, and whether these are there."""

import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from widemargin.exceptions import MissingDataError

__all__ = [
    "CATALOGUE", "DATA_VARIABLE", "GENES", "HIERARCHIES", "PEOPLE_FILES", "DataSet", "Folder", "data_folder", "find",
    "get_it", "text_of",
]  # fmt: skip

Folder = str | os.PathLike[str] | None

DATA_VARIABLE = "WIDEMARGIN_DATA"
"""Environment variable that names the folder of the data."""


def data_folder(option: Folder) -> Path | None:
    """Folder of the data: as given, else that of the environment variable, else None."""
    named = os.environ.get(DATA_VARIABLE) if option is None else option
    return Path(named) if named else None


def get_it(what: str, source: str) -> str:
    """The cure of messages about missing or wrong files."""
    return f"Get {what} from {source} and name the folder by --data or ${DATA_VARIABLE}."


def find(folder: Folder, below: str, names: Sequence[str], data: str, cure: str) -> Path:
    """The first of some files that is in a folder or in its subfolder `below`.

    Parameters
    ----------
    names : sequence of str
        Names that one file may have, packed or not; the first one stands in messages.
    data : str
        What the data set is called.
    cure : str
        End of the messages, see `get_it`.

    Raises
    ------
    MissingDataError
    """
    if folder is None:
        raise MissingDataError(f"the data set {data} is needed, and no folder of data was named. {cure}")
    folder = Path(folder)
    places = [place / name for place in (folder, folder / below) for name in names]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise MissingDataError(f"{names[0]} is not in {folder} nor in {folder / below}. {cure}")
    return path


def text_of(path: Path) -> str:
    """Content of a text file, packed or not."""
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8", errors="replace")


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

    def paths(self, folder: Folder, name: str) -> list[Path]:
        """Its files; `name` is what messages call it.

        Raises
        ------
        MissingDataError
            If one is missing; the message says where to get it.
        """
        return [find(folder, self.below, names, name, get_it("it", self.source)) for names in self.files]

    def found(self, folder: Path | None) -> list[Path] | None:
        """Its files; None where one is missing."""
        try:
            return self.paths(folder, "")
        except MissingDataError:
            return None


PEOPLE_FILES = {
    "adult": ("adult.data", "adult.test"),
    "credit-card": ("credit-card-clients.csv",),
    "compas": ("compas-scores-two-years.csv",),
    "german": ("german.data",),
}
"""Names of the tables about people, and of the files they are made from."""

HIERARCHIES = {
    "Enron_corr": ("Enron_corr_trainvalid", "Enron_corr_test"),
    "ImCLEF07A": ("ImCLEF07A_Train", "ImCLEF07A_Test"),
    "Diatoms": ("Diatoms_train", "Diatoms_test"),
    "cellcycle_FUN": ("cellcycle_FUN.train", "cellcycle_FUN.test"),
}
"""Names of the files of training and test rows."""

GENES = {
    name: tuple(f"{stem}.{part}" for part in ("train", "valid", "test"))
    for name, stem in (("cellcycle_FUN+valid", "cellcycle_FUN"), ("cellcycle_GO", "cellcycle_GO"))
}
"""The same with rows for validation, which are training rows here; the nodes of GO have several parents."""

_PACKED, _LIBSVM_PACKED = ("", ".gz"), ("", ".gz", ".bz2", ".txt", ".libsvm", ".libsvm.gz")
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html"
_LABEL_SETS = "https://mulan.sourceforge.net/datasets-mlc.html (yeast) and LIBSVM's multi-label page (rcv1subset1)"
_UCI = "https://archive.ics.uci.edu/dataset"
_MNIST = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def _data_set(names: Sequence[str], below: str, source: str, about: str, endings: Sequence[str] = _PACKED) -> DataSet:
    return DataSet(tuple(tuple(name + ending for ending in endings) for name in names), below, source, about)


CATALOGUE: dict[str, DataSet] = {
    "adult": _data_set(
        PEOPLE_FILES["adult"], "fairness", f"{_UCI}/2/adult",
        "48,842 people of a census; income above 50,000 dollars; sex, race",
    ),
    "credit-card": _data_set(
        PEOPLE_FILES["credit-card"], "fairness",
        f"{_UCI}/350/default+of+credit+card+clients (saved as CSV)",
        "30,000 clients of a bank; default of a payment; sex, age",
    ),
    "compas": _data_set(
        PEOPLE_FILES["compas"], "fairness", "https://github.com/propublica/compas-analysis",
        "6,172 defendants; arrest within two years; sex, race",
    ),
    "german": _data_set(
        PEOPLE_FILES["german"], "fairness", f"{_UCI}/144/statlog+german+credit+data",
        "1,000 loans; good or bad; sex, age",
    ),
    "a9a": _data_set(("a9a", "a9a.t"), "binary", _LIBSVM, "Adult in LIBSVM's binary coding", _LIBSVM_PACKED),
    "ijcnn1": _data_set(("ijcnn1",), "binary", _LIBSVM, "49,990 rows of 22 numbers", _LIBSVM_PACKED),
    "covtype": _data_set(
        ("covtype",), "binary", f"{_UCI}/31/covertype", "581,012 patches of forest", (".data.gz", ".data", ".npz")
    ),
    "mnist": _data_set(_MNIST, "mnist", "https://ossci-datasets.s3.amazonaws.com/mnist/", "70,000 handwritten digits"),
    "yeast": _data_set(("yeast-train.arff", "yeast-test.arff"), "multilabel", _LABEL_SETS, "2,417 genes, 14 labels"),
    "rcv1subset1": _data_set(("rcv1subset1.libsvm",), "multilabel", _LABEL_SETS, "6,000 news stories, 101 topics"),
    **{
        name: _data_set(
            files, "hierarchical", "https://github.com/EGiunchiglia/C-HMCNN (HMC_data)", "labels in a hierarchy",
            (".arff", ".arff.gz"),
        )
        for name, files in (HIERARCHIES | GENES).items()
    },
}  # fmt: skip
"""Data sets by name; those about people can be written as tables."""
