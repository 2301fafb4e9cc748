"""Train a PyTorch network to two requirements: python examples/network_on_adult.py (needs torch)."""

from pathlib import Path

import pandas as pd

import widemargin as wm

GOAL = """
women = population(sex == "Female")
men = population(sex == "Male")
minimize error_rate()
subject to fair: positive_rate(women) >= 0.8 * positive_rate(men)
subject to recall: recall() >= 0.6
"""
NO_FEATURES = ["income", "split", "deployed", "sex", "race", "fnlwgt"]


def main() -> None:
    """Train on the training rows, audit on the others."""
    try:
        import torch

        from widemargin.torch import GoalNetwork
    except ImportError:
        print("This example needs torch: pip install torch")
        return
    table = pd.read_csv(Path(__file__).parent / "data" / "adult.csv.gz", keep_default_na=False)
    train = table["split"] == "train"
    features = pd.get_dummies(table.drop(columns=NO_FEATURES), dtype=float)
    features = (features - features[train].mean()) / (features[train].std() + 1e-9)
    X, y = features.clip(-5.0, 5.0).to_numpy("float32"), (table["income"] == ">50K").astype(int)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(X.shape[1], 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    network = GoalNetwork(module, GOAL, epochs=10, learning_rate=2e-3, random_state=0)
    network.fit(X[train], y[train], populations=table[train])
    print(wm.audit(network, GOAL, X[~train], y[~train], populations=table[~train], data_name="the test rows"))


if __name__ == "__main__":
    main()
