"""GoalNetwork: a PyTorch module trained to a goal. Skipped where PyTorch is missing (`make test-torch` has it)."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

from widemargin import External, audit, load_model, save_model  # noqa: E402
from widemargin.estimators.networks.lagrangian import (  # noqa: E402
    RATES,
    Inputs,
    Part,
    Pricing,
    ProxyLagrangian,
)
from widemargin.exceptions import (  # noqa: E402
    DataError,
    GoalWarning,
    InfeasibleGoalError,
    MarginConvergenceWarning,
    ModelFileError,
)
from widemargin.goals import Goal, positive_rate  # noqa: E402
from widemargin.goals.binding.bind import bind  # noqa: E402
from widemargin.goals.binding.sources import make_sources  # noqa: E402
from widemargin.rows import Rows  # noqa: E402
from widemargin.torch import GoalNetwork, load_network, save_network  # noqa: E402

PARITY = """
minimize error_rate()
subject to demographic_parity(sex, ratio=0.8)
subject to recall() >= 0.6
"""
FAST = {"epochs": 6, "learning_rate": 0.02, "batch_size": 128, "random_state": 0}


def make_rows(n=1500, seed=0):
    """A product of two features decides, which no linear model sees; women score lower on the first."""
    rng = np.random.default_rng(seed)
    woman = rng.random(n) < 0.4
    X = rng.normal(size=(n, 4)).astype(np.float32)
    X[:, 0] -= 0.7 * woman
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.4 * rng.normal(size=n) > 0.3).astype(int)
    return X, y, pa.table({"sex": np.where(woman, "F", "M"), "deployed": (X[:, 0] > 0.5).astype(int)})


def module(d=4, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(d, 24), torch.nn.ReLU(), torch.nn.Linear(24, 1))


@pytest.fixture(scope="module")
def rows():
    return make_rows()


@pytest.fixture(scope="module")
def fitted(rows):
    X, y, table = rows
    return GoalNetwork(module(), PARITY, **FAST).fit(X, y, populations=table)


def test_the_goal_is_met_on_held_out_rows_and_nearly_on_new_ones(fitted):
    assert fitted.goal_report_.passed
    X, y, table = make_rows(8000, seed=1)
    report = audit(fitted, PARITY, X, y, populations=table)
    assert min(item.slack for item in report.constraints) > -0.12
    assert np.mean(fitted.predict(X) != y) < 0.27  # a linear model with these bounds errs on a third


def test_bounds_kept_on_a_few_held_out_rows_by_chance_are_noticed_on_the_other_rows():
    X, y, table = make_rows(1000)
    goal = "minimize error_rate()\nsubject to equalized_odds(sex, difference=0.03)"
    network = GoalNetwork(module(), goal, **FAST).fit(X, y, populations=table)
    report = audit(network, goal, X, y, populations=table, confidence=None)
    assert min(item.slack for item in report.constraints) > -0.02  # -.04 where the held-out rows choose alone


def test_prices_of_bounds_that_cost_something_rise_and_fall_with_the_rates(fitted):
    assert fitted.prices_.shape == (len(fitted.goal_report_.constraints),)
    assert (fitted.prices_ >= 0.0).all() and fitted.prices_.max() > 0.0
    assert len(fitted.history_) == fitted.n_epochs_ == 6


@pytest.mark.parametrize("kind", ["tensor", "dataset", "loader", "csr", "frame"])
def test_every_kind_of_input_gives_the_same_network(rows, fitted, kind):
    X, y, table = rows
    as_kind = {
        "tensor": lambda: torch.as_tensor(X),
        "dataset": lambda: TensorDataset(torch.as_tensor(X), torch.as_tensor(y)),
        "loader": lambda: DataLoader(TensorDataset(torch.as_tensor(X)), batch_size=7, shuffle=True),
        "csr": lambda: sp.csr_matrix(X),
        "frame": lambda: pd.DataFrame(X, columns=list("abcd")),
    }[kind]
    other = GoalNetwork(module(), PARITY, **FAST).fit(as_kind(), y, populations=table)
    np.testing.assert_allclose(other.decision_function(as_kind()), fitted.decision_function(X), atol=1e-5)


def test_columns_keep_their_names_and_their_order_also_in_a_file(rows, fitted, tmp_path):
    X, y, table = rows
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = GoalNetwork(module(), PARITY, **FAST).fit(frame, y, populations=table)
    save_network(named, tmp_path / "net.pt")
    for network in (named, load_network(tmp_path / "net.pt", module())):
        assert network.feature_names_in_.tolist() == list("abcd")
        with pytest.raises(ValueError, match="should match"):
            network.predict(frame[list("dcba")])
        np.testing.assert_array_equal(network.predict(frame), network.predict(X))
    assert not hasattr(fitted, "feature_names_in_")


def test_numbers_that_pandas_keeps_with_a_mask_are_numbers(rows, fitted):
    X, y, table = rows
    masked = pd.DataFrame(X, columns=list("abcd")).convert_dtypes()
    network = GoalNetwork(module(), PARITY, **FAST).fit(masked, y, populations=table)
    np.testing.assert_allclose(network.decision_function(masked), fitted.decision_function(X), atol=1e-5)
    masked.loc[3, "a"] = pd.NA
    with pytest.raises(DataError, match="1 numbers that are NaN"):
        network.predict(masked)


def test_the_rows_of_a_loader_can_be_audited_and_proved(rows, fitted):
    X, y, table = rows
    loader = DataLoader(TensorDataset(torch.as_tensor(X)), batch_size=7)
    assert str(audit(fitted, PARITY, loader, y, populations=table)) == str(
        audit(fitted, PARITY, X, y, populations=table)
    )
    goal = "subject to recall() >= 0.5"
    network = GoalNetwork(module(), goal, **FAST).fit(loader, y)
    assert str(network.prove(loader, y)) == str(network.prove(X, y))


def test_batches_of_one_row_teach(rows):
    X, y, _ = rows
    network = GoalNetwork(module(), None, epochs=1, batch_size=1, random_state=0).fit(X[:300], y[:300])
    assert network.history_[0]["loss"] > 0.0
    assert not torch.equal(network.estimator_.network[0].weight, module()[0].weight)


def test_the_module_and_the_generators_stay_as_they_were(rows):
    X, y, table = rows
    mine, before = module(), torch.random.get_rng_state()
    weights = mine[0].weight.detach().clone()
    GoalNetwork(mine, PARITY, **{**FAST, "epochs": 1}, on_infeasible="warn", n_jobs=1).fit(X, y, populations=table)
    assert torch.equal(mine[0].weight, weights)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_same_seed_same_network(rows, fitted):
    X, y, table = rows
    again = GoalNetwork(module(), PARITY, **FAST).fit(X, y, populations=table)
    np.testing.assert_allclose(again.decision_function(X), fitted.decision_function(X), atol=1e-6)


def test_churn_on_external_rows(rows):
    X, y, _ = rows
    traffic, _, other = make_rows(900, seed=3)
    goal = 'subject to churn("deployed", on=traffic) <= 0.15\ntraffic = external()'
    outside = External(torch.as_tensor(traffic), deployed=np.asarray(other["deployed"]))
    model = GoalNetwork(module(), goal, **FAST).fit(torch.as_tensor(X), y, external={"traffic": outside})
    assert model.goal_report_.passed
    assert np.mean(model.predict(traffic) != np.asarray(other["deployed"])) < 0.2


def test_thresholds_by_group_and_drawn_ones(rows, tmp_path):
    X, y, table = rows
    tight = "subject to demographic_parity(sex, difference=0.02)"
    model = GoalNetwork(module(), tight, per_population="sex", **FAST).fit(X, y, populations=table)
    assert model.threshold_.shape == (2,) and model.goal_report_.passed
    drawn = GoalNetwork(module(), tight, randomize=True, **FAST).fit(X, y, populations=table)
    assert drawn.status_ == "converged"  # of the expected rates of drawn decisions
    for one in (model, drawn):
        save_network(one, tmp_path / "net.pt")
        back = load_network(tmp_path / "net.pt", module(seed=5))
        np.testing.assert_allclose(back.decision_function(X, table), one.decision_function(X, table), rtol=1e-6)
        np.testing.assert_array_equal(back.predict(X, table), one.predict(X, table))
    np.testing.assert_allclose(back.randomized_proba(X), drawn.randomized_proba(X))


def test_pos_label_and_texts_as_labels(rows):
    X, y, table = rows
    named = np.where(y == 1, "no", "yes")  # the rare class is now the first by name
    goal = "subject to recall() >= 0.8"
    model = GoalNetwork(module(), goal, pos_label="no", **FAST).fit(X, named, populations=table)
    assert np.mean(model.predict(X)[y == 1] == "no") > 0.75
    assert set(model.predict(X)) == {"no", "yes"} and model.goal_report_.positive_class == "no"


def tie(rows):
    return bind(Goal.parse("subject to recall() >= 0.9"), make_sources({}, rows, classes=(0, 1)))


def test_weights_are_repetitions_in_the_lagrangian(rows):
    """The same loss, prices and masses of a batch of all rows, whether a row has weight 2 or stands there twice."""
    X, y, _ = (part[:60] for part in rows)
    twice = np.arange(60) % 3 == 0
    repeated = np.concatenate([np.arange(60), np.flatnonzero(twice)])
    states = []
    for index, weight in ((np.arange(60), 1.0 + twice), (repeated, None)):
        tied = tie(Rows(X[index], y[index], weight))
        network = module()
        run = ProxyLagrangian(
            network, torch.optim.SGD(network.parameters(), lr=0.1), tied,
            [Part(Inputs(X[index], torch.device("cpu")), np.arange(len(index)))], rates="logistic",
            pricing=Pricing(1.0, 10.0), batch_size=100, steps=1, rng=np.random.RandomState(0),
        )  # fmt: skip
        loss = [run.epoch(priced=True) for _ in range(3)]
        states.append((loss, run.prices, network[0].weight.detach().numpy()))
    for one, other in zip(*states, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_the_loss_is_the_lagrangian_of_the_goal():
    """With decisions far from zero the ramp is the decision itself: the loss is the objective and the priced cost."""
    X = np.array([[3.0], [-3.0], [3.0], [-3.0]], dtype=np.float32)
    y = np.array([1, 1, 0, 0])
    tied = tie(Rows(X, y))
    network = torch.nn.Linear(1, 1)
    with torch.no_grad():
        network.weight.fill_(1.0)
        network.bias.fill_(0.0)
    run = ProxyLagrangian(
        network, torch.optim.SGD(network.parameters(), lr=1e-12), tied,
        [Part(Inputs(X, torch.device("cpu")), np.arange(4))], rates="ramp", pricing=Pricing(1.0, 10.0),
        batch_size=4, steps=1, rng=np.random.RandomState(0),
    )  # fmt: skip
    assert run.epoch(priced=True) == pytest.approx(0.5)  # two errors among four rows, nothing priced yet
    assert run.prices == pytest.approx([0.4])  # a recall of .5 misses .9 by .4
    assert run.epoch(priced=False) == pytest.approx(0.5 + 0.4 * 0.5)  # half of the positives are missed


@pytest.mark.parametrize("name", RATES)
def test_stand_ins_rise_with_the_score_and_are_a_half_or_one_at_zero(name):
    scores = torch.linspace(-3.0, 3.0, 13)
    values = RATES[name](scores)
    assert (values.diff() >= 0.0).all()
    assert float(values[6]) == pytest.approx(1.0 if name == "logistic" else 0.5)


def test_what_cannot_be_met_is_refused_with_the_numbers(rows):
    X, y, table = rows
    goal = "subject to recall() >= 0.99\nsubject to positive_rate() <= 0.1"
    with pytest.raises(InfeasibleGoalError, match=r"no network found.*6 epochs of Sequential"):
        GoalNetwork(module(), goal, **FAST).fit(X, y, populations=table)
    with pytest.warns(GoalWarning, match="no network found"):
        kept = GoalNetwork(module(), goal, on_infeasible="warn", **FAST).fit(X, y, populations=table)
    assert kept.status_ == "infeasible"


class Parts(torch.utils.data.Dataset):
    def __len__(self):
        return 1500

    def __getitem__(self, number):
        return {"x": torch.zeros(4)}


class Stream(IterableDataset):
    def __iter__(self):
        return iter([torch.zeros(4)])


def test_bad_input_is_named(rows, fitted):
    X, y, table = rows
    with pytest.raises(DataError, match="Stream has no length"):
        GoalNetwork(module(), PARITY, **FAST).fit(Stream(), y)
    with pytest.raises(DataError, match="reads numbers"):
        GoalNetwork(module(), PARITY, **FAST).fit(np.array([["a"]] * len(y)), y)
    with pytest.raises(DataError, match="1 numbers that are NaN"):
        GoalNetwork(module(), PARITY, **FAST).fit(np.where(np.arange(X.size).reshape(X.shape) == 3, np.nan, X), y)
    with pytest.raises(DataError, match=r"output of shape \(128, 2\)"):
        two = torch.nn.Linear(4, 2)
        GoalNetwork(two, PARITY, **FAST).fit(X, y, populations=table)
    with pytest.raises(DataError, match=r"fails on inputs of shape \(128, 4\), rows first: mat1 and mat2"):
        GoalNetwork(torch.nn.Linear(5, 1), PARITY, **FAST).fit(X, y, populations=table)
    with pytest.raises(DataError, match=r"rows of shape \(3,\), and the network was trained on rows of shape \(4,\)"):
        fitted.predict(X[:, :3])
    with pytest.raises(DataError, match="loss of a batch is"):
        GoalNetwork(module(), PARITY, **{**FAST, "learning_rate": 1e30}).fit(X, y, populations=table)
    with pytest.raises(DataError, match="put together as a dict, and the network reads one tensor"):
        GoalNetwork(module(), PARITY, **FAST).fit(Parts(), y, populations=table)
    with pytest.raises(DataError, match="predictions as columns of populations"):
        GoalNetwork(module(), 'subject to churn("old") <= 0.1', baselines={"old": Asked()}, **FAST).fit(
            torch.as_tensor(X), y
        )


class Asked:
    def predict(self, X):
        return np.zeros(len(X))


def test_a_callback_and_a_budget_end_the_training(rows):
    X, y, _ = rows
    goal = "subject to recall() >= 0.5"
    with pytest.warns(MarginConvergenceWarning, match="stopped by a callback; the best of 2 epochs"):
        model = GoalNetwork(module(), goal, callbacks=[lambda step: step.iteration == 2], **FAST).fit(X, y)
    assert model.n_epochs_ == 2


def test_ctrl_c_keeps_the_best_so_far(rows):
    X, y, _ = rows

    def stop(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    model = GoalNetwork(
        module(), "subject to recall() >= 0.5", callbacks=[stop], solver_options={"on_interrupt": "return"}, **FAST
    )
    with pytest.warns(MarginConvergenceWarning, match="interrupted after"):
        model.fit(X, y)
    assert model.status_ == "interrupted" and model.predict(X).shape == y.shape


def test_batch_normalisation_and_images():
    rng = np.random.default_rng(0)
    images = rng.normal(size=(400, 1, 5, 5)).astype(np.float32)
    y = (images.mean(axis=(1, 2, 3)) > 0.02).astype(int)
    torch.manual_seed(0)
    convolution = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(36, 1)
    )
    for X in (images, torch.as_tensor(images)):
        model = GoalNetwork(convolution, "subject to recall() >= 0.8", epochs=8, batch_size=33, random_state=0).fit(
            X, y
        )
        assert model.goal_report_.passed and model.predict(X).shape == (400,)


def test_a_fitted_network_can_be_proved(rows, fitted):
    X, y, _ = make_rows(4000, seed=9)
    easy = GoalNetwork(module(), "subject to recall() >= 0.5", **FAST).fit(*rows[:2])
    assert "probability >= 0.95" in str(easy.prove(X, y).certificate)


def test_files_hold_the_goal_and_refuse_what_is_wrong(rows, fitted, tmp_path):
    X, _, _ = rows
    path = tmp_path / "net.pt"
    save_network(fitted, path)
    back = load_network(path, module(seed=7))
    np.testing.assert_allclose(back.decision_function(X), fitted.decision_function(X), rtol=1e-6)
    assert str(back.goal_) == str(fitted.goal_)
    assert str(back.goal_report_) == str(fitted.goal_report_)
    with pytest.raises(ModelFileError, match="no network of this architecture"):
        load_network(path, module(d=5))
    with pytest.raises(ModelFileError, match=r"Read it by widemargin[.]torch[.]load_network"):
        load_model(path)
    with pytest.raises(ModelFileError, match=r"widemargin[.]torch[.]save_network"):
        save_model(make_pipeline(StandardScaler(), fitted), tmp_path / "net.skops")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(ModelFileError, match="damaged"):
        load_network(path, module())
    with pytest.raises(ModelFileError, match="cannot be read"):
        load_network(tmp_path / "absent.pt", module())


def test_populations_as_objects_survive_a_file(rows, tmp_path):
    X, y, table = rows

    model = GoalNetwork(module(), Goal(subject_to=[positive_rate() >= 0.3]), per_population="sex", **FAST)
    model.fit(X, y, populations=table)
    save_network(model, tmp_path / "net.pt")
    assert load_network(tmp_path / "net.pt", module()).groups_ == model.groups_


def test_few_rows_are_learned_as_well_as_many():
    """Twenty epochs of a hundred rows are a thousand steps, and the luckiest of many networks is not taken."""
    rng, found = np.random.default_rng(0), []
    for seed in range(4):
        X = rng.normal(size=(2100, 5)).astype(np.float32)
        y = (X @ [2.0, -1.0, 1.0, 0.0, 0.0] + 0.5 * rng.normal(size=2100) > 0).astype(int)
        found.append(
            np.mean(GoalNetwork(module(5), random_state=seed).fit(X[:100], y[:100]).predict(X[100:]) != y[100:])
        )
    assert np.mean(found) < 0.15


@pytest.mark.parametrize("rows_of", [np.asarray, torch.as_tensor])
def test_a_network_in_double_precision_gets_its_rows_so(rows_of):
    X, y, _ = make_rows(300)
    network = GoalNetwork(module().double(), "subject to recall() >= 0.6", **FAST).fit(rows_of(X), y)
    assert np.mean(network.predict(rows_of(X)) == y) > 0.7


def test_a_churn_ceiling_that_only_held_out_rows_miss_raises_its_price():
    # The network keeps the ceiling on the 400 rows that it learns from, which it soon knows by heart, so its price
    # would stay where it is, and no number of epochs would do for the rows held out.
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 5)).astype(np.float32)
    said = (X[:, 0] - X[:, 1] > 0.8).astype(int)
    y = (X[:, 0] - X[:, 1] + 2.0 * X[:, 2] * X[:, 3] + rng.normal(size=500) > 0.5).astype(int)
    goal = 'subject to churn("deployed") <= 0.03'
    network = GoalNetwork(module(5), goal, epochs=40, learning_rate=0.01, random_state=0)
    network.fit(X, y, populations=pa.table({"deployed": said}))
    assert network.goal_report_.passed


@pytest.mark.parametrize("goal", [None, 'subject to recall(of="a") >= 0.5', "subject to recall() >= 0.5"])
def test_several_classes_are_refused_whatever_the_goal(goal):
    X, y = np.zeros((30, 3), np.float32), np.array(["a", "b", "c"] * 10)
    with pytest.raises(DataError, match=r"3 classes\), and a network that gives one score a row is for two"):
        GoalNetwork(module(3), goal).fit(X, y)
