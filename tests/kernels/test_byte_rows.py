"""Products of rows of bytes: exact, for every part of the rows, and only where all numbers are bytes times one unit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin import KernelSVC, _byte_dots
from widemargin._threads import limit_threads
from widemargin.kernels import packed_rows
from widemargin.kernels.functions import Kernel
from widemargin.kernels.packed_rows import ByteRows, Marked, MostlyZero, byte_rows_of, listed_words, pack, words_of
from widemargin.kernels.rows import KernelRows


@pytest.fixture(autouse=True)
def everywhere(monkeypatch):
    """Bytes also where the processor has no instruction for them: `tile_dots` is then compiled as it is written."""
    monkeypatch.setattr(packed_rows, "has_instruction", lambda: True)


def images(seed=0, n=300, d=9, dtype=np.float32, unit=1 / 255, share=0.4, largest=255):
    rng = np.random.default_rng(seed)
    whole = np.where(rng.random((n, d)) < share, rng.integers(0, largest + 1, (n, d)), 0)
    whole[0], whole[1], whole[2] = 0, 1, largest
    return whole, (whole * unit).astype(dtype)


@given(
    seed=st.integers(0, 100), float64=st.booleans(), first=st.integers(0, 299), width=st.integers(1, 300),
    d=st.integers(1, 9), unit=st.sampled_from([1.0, 1 / 255, 0.1, 1e-3, 7.0]), largest=st.sampled_from([2, 200, 255]),
)  # fmt: skip
def test_products_are_exact_for_any_range_of_rows(seed, float64, first, width, d, unit, largest):
    whole, X = images(seed, d=d, dtype=np.float64 if float64 else np.float32, unit=unit, largest=largest)
    packed, last = byte_rows_of(X), min(300, first + width)
    assert packed is not None and packed.unit == pytest.approx(unit, rel=1e-6)
    out = np.full((7, last - first), np.nan, X.dtype)
    left = listed_words(packed.words[10:15])
    assert packed_rows.fill(packed, left, None, 0.0, first, last, out, np.array([6, 0, 2, 3, 4]))
    exact = (whole[10:15] @ whole[first:last].T) * packed.unit**2
    np.testing.assert_allclose(out[[6, 0, 2, 3, 4]], exact, rtol=4 * np.finfo(X.dtype).eps)
    assert np.isnan(out[[1, 5]]).all()
    unpacked = listed_words(words_of(X[10:15], packed.unit))
    for one, other in zip(left, unpacked, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda X: X - 0.5,
        lambda X: np.where(np.nanmax(X) <= X, np.nan, X),
        lambda X: X + np.float32(1e-3) * np.arange(9, dtype=np.float32),
        lambda X: np.where(np.nanmax(X) <= X, np.float32(2.0), X),  # more than 255 units
        lambda X: np.zeros_like(X),
        lambda X: X[:, :0],
        lambda X: X.astype(np.float16),
    ],
)
def test_other_rows_are_not_packed_as_bytes(spoil):
    assert byte_rows_of(images()[1]) is not None
    assert byte_rows_of(spoil(images()[1])) is None


def test_without_the_instruction_nothing_is_packed_as_bytes(monkeypatch):
    monkeypatch.setattr(packed_rows, "has_instruction", lambda: False)
    assert byte_rows_of(images()[1]) is None


def test_one_value_is_counted_and_several_are_multiplied_as_bytes():
    assert isinstance(pack(images(share=0.1, largest=1)[1]), Marked)
    assert isinstance(pack(images(share=0.1)[1]), ByteRows)
    assert isinstance(pack(images(share=0.9)[1]), ByteRows)
    assert isinstance(pack(np.where(images(share=0.05)[1] > 0, -0.3, 0.0) * np.arange(9)), MostlyZero)
    assert pack(np.random.default_rng(0).normal(size=(50, 3))) is None


def gaussian(X, Y, gamma):
    return np.exp(-gamma * ((X[:, None].astype(float) - Y[None]) ** 2).sum(axis=2))


def test_kernel_values_of_every_kind_of_block():
    X = images()[1]
    K, made = gaussian(X, X, 0.3), KernelRows(Kernel("rbf", 0.3), X)
    many = np.arange(200)[::-1]
    np.testing.assert_allclose(made.block(many), K[many], atol=2e-6)
    np.testing.assert_allclose(made.block(slice(30, 90)), K[30:90], atol=2e-6)
    np.testing.assert_allclose(made.block(many, slice(37, 251)), K[many, 37:251], atol=2e-6)
    np.testing.assert_allclose(made.block(many, np.array([4, 280, 9])), K[many][:, [4, 280, 9]], atol=2e-6)
    buffer, slot = made.cached(many)
    np.testing.assert_allclose(buffer[slot], K[many], atol=2e-6)
    part = made.subset(many)
    np.testing.assert_allclose(part.block(np.arange(50)), K[many[:50]][:, many], atol=2e-6)
    few = many[::3][:60]
    wanted = K[np.ix_(many[few[:40]], many[few])]
    np.testing.assert_allclose(part.subset(few).block(slice(0, 40)), wanted, atol=2e-6)
    scores = np.zeros(300)
    made.add(np.arange(100), np.arange(100.0), scores)
    np.testing.assert_allclose(scores, K[:, :100] @ np.arange(100.0), rtol=1e-5)


@pytest.mark.parametrize("name", ["linear", "poly", "sigmoid", "rbf"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_new_rows_may_have_the_unit_or_another(name, dtype):
    X = images(dtype=dtype)[1]
    made = KernelRows(Kernel(name, 0.2, 2, 0.5), X)
    new = np.random.default_rng(5).normal(size=(40, 9)).astype(dtype)
    for rows in (images(3, n=40, dtype=dtype, largest=254)[1], images(3, n=40, dtype=dtype, unit=0.3)[1], new):
        wanted = KernelRows(Kernel(name, 0.2, 2, 0.5), np.vstack([X, rows]) - dtype(0.0))
        wanted._rows.packed = None
        exact = wanted.block(np.arange(300, 340), slice(0, 300))
        np.testing.assert_allclose(made.products(rows, np.eye(300)), exact, rtol=1e-4, atol=1e-5)


def test_threads_change_nothing(monkeypatch):
    monkeypatch.setattr(ByteRows, "worth", 100)
    X, blocks = images()[1], []
    for threads in (1, 2):
        with limit_threads(threads):
            blocks.append(KernelRows(Kernel("rbf", 0.3), X).block(np.arange(100)))
    np.testing.assert_array_equal(*blocks)


def test_compiled_loops_are_their_python():
    whole, X = images(n=140, d=7)
    ends = []
    for python in (False, True):

        def call(name, *arguments, python=python):
            function = getattr(packed_rows, name)
            return (function.py_func if python else function)(*arguments)

        words = np.zeros((140, 2), np.uint32)
        assert call("smallest_and_largest", X, 0, 140) == (X[X > 0].min(), X.max())
        assert call("fill_words", X, 1 / 255, 1e-6, words, 0, 140)
        start, group, word = np.empty(4, np.int64), np.empty(6, np.int32), np.empty(6, np.uint32)
        total = np.empty(3, np.int64)
        call("list_words", words[2:5], start, group, word, total)
        np.testing.assert_array_equal(total, whole[2:5].sum(axis=1))
        packed = ByteRows(words, 1 / 255).tiles
        out, room, square = np.zeros((3, 130), np.float32), np.empty((2, 256), np.int32), (X**2).sum(axis=1)
        given = (
            "fill_byte_products", start, group, word, total, np.float32(255**-2), packed, square[2:5], square[5:135],
            np.float32(-0.4), room, 5, 5, 135,
        )  # fmt: skip
        call(*given, out, np.arange(3), np.empty(0), np.empty(0))
        scores, change = np.zeros(130), np.arange(3.0)
        call(*given, np.empty((1, 256), np.float32), np.zeros(3, np.int64), change, scores)
        np.testing.assert_allclose(scores, change @ out, rtol=1e-5)
        ends.append((words, start, group[: start[-1]], word[: start[-1]], total, scores, out))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_allclose(ends[0][-1], gaussian(X[2:5], X[5:135], 0.4 * np.log(2)), atol=1e-6)
    assert not packed_rows.fill_words.py_func(X + np.float32(1e-3), 1 / 255, 1e-6, words, 0, 140)


def test_dots_of_the_largest_bytes_do_not_overflow():
    words = np.full((2, 1 << 14), 0xFFFFFFFF, np.uint32)  # 65,536 columns of 255
    packed = ByteRows(words, 1.0)
    out = np.empty((1, 2))
    assert packed_rows.fill(packed, listed_words(packed.words[:1]), None, 0.0, 0, 2, out, np.array([0]))
    assert (out == 255.0**2 * 2**16).all()


def test_the_instruction_is_used_only_where_code_is_compiled_for_this_processor(monkeypatch):
    monkeypatch.setattr(_byte_dots.platform, "machine", lambda: "aarch64")
    assert not _byte_dots.has_instruction.__wrapped__()
    monkeypatch.undo()
    monkeypatch.setattr(_byte_dots.config, "CPU_NAME", "generic")
    assert not _byte_dots.has_instruction.__wrapped__()


def test_a_model_is_the_same_with_and_without_bytes(monkeypatch):
    X = images(n=400, d=20)[1]
    y = (X[:, :10].sum(axis=1) > X[:, 10:].sum(axis=1)).astype(int)
    decisions = []
    for packs in (True, False):
        monkeypatch.setattr(packed_rows, "has_instruction", lambda packs=packs: packs)
        decisions.append(KernelSVC(C=10, gamma=0.1, tol=1e-6).fit(X, y).decision_function(X))
    np.testing.assert_allclose(*decisions, atol=1e-4)
