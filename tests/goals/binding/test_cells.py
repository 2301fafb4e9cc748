"""Cells: a grouping of rows that loses nothing a rate looks at."""

import numpy as np
import pandas as pd
import pytest

from widemargin.goals import Population, col
from widemargin.goals.binding.cells import Packer, _ranked, build_cells
from widemargin.goals.binding.sources import Source
from widemargin.goals.binding.tables import PopulationTable


def source(n=200, n_columns=70, seed=0, weight=None):
    rng = np.random.default_rng(seed)
    table = {f"c{j}": rng.random(n) < 0.5 for j in range(n_columns)}
    table["group"] = rng.choice(["a", "b", None], n)
    said = {"h": rng.choice([-1, 1], n).astype(np.int8)}
    labels = rng.choice([-1, 0, 1], n).astype(np.int8)
    return Source(None, labels, weight, PopulationTable.build(pd.DataFrame(table)), said, n)


@pytest.mark.parametrize("number", [0, 3, 58, 62, 70])
def test_every_row_can_be_read_back_from_its_cell(number):
    rows = source()
    populations = [Population(None, where=col(f"c{j}") == True) for j in range(number)]  # noqa: E712
    cells = build_cells(rows, populations, ["h"], use_label=True)
    assert (cells.label[cells.cell] == rows.labels).all()
    assert (cells.baselines["h"][cells.cell] == rows.baselines["h"]).all()
    for j, population in enumerate(populations):
        assert (cells.member(population.rows)[cells.cell] == rows.table.column(f"c{j}").values).all()
    assert cells.member((None, None)).all()
    assert cells.count.sum() == 200
    assert (cells.count > 0).all()
    facts = np.column_stack(
        [rows.labels, rows.baselines["h"], *(rows.table.column(f"c{j}").values for j in range(number))]
    )
    assert cells.n_cells == len(np.unique(facts, axis=0))


def test_few_and_many_distinct_keys_are_numbered_alike():
    """Few distinct keys are hashed, many are sorted; both number them in increasing order."""
    rng = np.random.default_rng(0)
    for high in (1, 50, 2**40):
        key = rng.integers(0, high, 5000)
        expected = np.unique(key, return_inverse=True)
        place, ordered = _ranked(key)
        np.testing.assert_array_equal(ordered, expected[0])
        np.testing.assert_array_equal(place, expected[1])
        assert place.dtype == np.int32
    np.testing.assert_array_equal(_ranked(np.array([7]))[1], [7])


def test_cells_do_not_depend_on_the_order_of_the_rows():
    rows = source(n_columns=3)
    order = np.random.default_rng(1).permutation(200)
    populations = [Population(None, where=col("c0") & col("c1"))]
    cells = build_cells(rows, populations, [], use_label=True)
    frame = pd.DataFrame({f"c{j}": rows.table.column(f"c{j}").values[order] for j in range(3)})
    shuffled = Source(None, rows.labels[order], None, PopulationTable.build(frame), {}, 200)
    again = build_cells(shuffled, populations, [], use_label=True)
    assert (again.cell == cells.cell[order]).all()
    assert (again.count == cells.count).all()


def test_one_condition_is_evaluated_once_and_unknown_rows_are_counted():
    rows = source()
    twice = [Population("x", where=col("group") == "a"), Population("y", where=col("group") == "a")]
    cells = build_cells(rows, twice, [], use_label=False)
    assert cells.n_cells == 2
    assert len(cells.unknown) == 1
    assert cells.unknown[twice[0].rows] == rows.table.column("group").n_missing > 0


def test_weights_are_summed_and_zeros_allowed():
    weight = np.arange(200.0) % 3
    cells = build_cells(source(weight=weight), [Population(None, where=col("c0") == True)], [], use_label=False)  # noqa: E712
    assert cells.weight.sum() == weight.sum()
    assert cells.count.sum() == 200


def test_goals_without_labels_do_not_split_by_label():
    assert build_cells(source(), [], [], use_label=False).n_cells == 1


def test_the_packer_renumbers_when_a_word_is_full():
    packer = Packer(4)
    places = [packer.add(np.array([0, 1, 0, 1]), 1) for _ in range(100)]
    cell, words, number = packer.finish()
    assert number == 2
    assert cell.tolist() == [0, 1, 0, 1]
    assert len(words) > 1
    for word, bit in places:
        assert ((words[word] >> bit & 1)[cell] == [0, 1, 0, 1]).all()
