"""Files of data sets are found in the folder or below it, whatever kind of path names it."""

import gzip
from pathlib import Path

import pytest

from widemargin import datasets, plotting
from widemargin.datasets.files import data_folder, find, get_it, text_of
from widemargin.exceptions import MissingDataError
from widemargin_papers import data
from widemargin_papers.data import load_yeast


def test_what_moved_to_the_papers_is_found_under_its_old_names():
    assert {*data.__all__} == datasets._IN_PAPERS
    assert all(getattr(datasets, name) is getattr(data, name) for name in data.__all__)
    assert not hasattr(datasets, "load_something")


def test_a_name_that_never_was_is_unknown_without_the_papers_too(monkeypatch):
    monkeypatch.setattr("widemargin._papers.find_spec", lambda name: pytest.fail(f"asked for {name}"))
    assert not hasattr(datasets, "load_something") and not hasattr(plotting, "Something")


@pytest.mark.parametrize("kind", [str, Path])
def test_the_folder_itself_comes_first(tmp_path, kind):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "rows.txt").write_text("below")
    cure = get_it("it", "a place")
    assert find(kind(tmp_path), "below", ["rows", "rows.txt"], "rows", cure) == tmp_path / "below" / "rows.txt"
    (tmp_path / "rows.txt").write_text("here")
    assert find(kind(tmp_path), "below", ["rows", "rows.txt"], "rows", cure).read_text() == "here"


def test_a_missing_file_is_named_with_the_cure(tmp_path):
    with pytest.raises(MissingDataError, match=r"yeast-train.arff is not in .* nor in .*multilabel. Get it from http"):
        load_yeast(str(tmp_path))
    with pytest.raises(
        MissingDataError, match=r"no folder of data was named. Get it from a place and name the folder by"
    ):
        find(None, "below", ["rows"], "rows", get_it("it", "a place"))


def test_the_folder_is_the_option_or_the_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("WIDEMARGIN_DATA", raising=False)
    assert data_folder(None) is None
    monkeypatch.setenv("WIDEMARGIN_DATA", str(tmp_path / "named"))
    assert data_folder(None) == tmp_path / "named"
    assert data_folder(str(tmp_path)) == tmp_path


def test_packed_texts_are_unpacked(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one"))
    (tmp_path / "a").write_text("two")
    assert (text_of(tmp_path / "a.gz"), text_of(tmp_path / "a")) == ("one", "two")
