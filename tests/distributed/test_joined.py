"""Several back ends as one."""

import numpy as np

from widemargin.distributed import JoinedMap, SerialMap, array_rows


def total(block, power):
    return (block.data["x"] ** power).sum() + (0.0 if block.state is None else block.state)


def doubled(data, by):
    return {"x": by * data["x"]}


def test_all_blocks_are_asked_in_order():
    x = np.arange(10.0)
    both = JoinedMap([SerialMap(array_rows({"x": x[:6]}, block_rows=4)), SerialMap(array_rows({"x": x[6:]}))])
    assert both.n_blocks == 3
    assert both.map(total, 1) == [6.0, 9.0, 30.0]
    assert both.sum(total, 2) == (x**2).sum()
    more = both.prepared(doubled, 2.0, hold=True)
    assert more.sum(total, 1) == 90.0
    more.advance(total, 1)
    assert more.sum(total, 1) == 180.0
    assert both.sum(total, 1) == 45.0  # they are other blocks
    more.close()
    assert more.n_blocks == 0
