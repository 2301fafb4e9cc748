"""The list of figures. It is read for `--list` and `--help`, so it imports nothing slow."""

from typing import NamedTuple


class FigureEntry(NamedTuple):
    """One figure that can be reproduced.

    Attributes
    ----------
    title : str
    module : str
        Its file in this folder, with the functions of `widemargin_papers.reproductions.experiment.Experiment`.
    needs : str
        Data sets.
    runs : int
        Runs by default.
    minutes : float
        Processor minutes of that many runs on one core of a server, as measured.
    """

    title: str
    module: str
    needs: str
    runs: int
    minutes: float


FIGURES = {
    "dataset-constraints-fig2": FigureEntry(
        title="Goh et al. 2016, Figure 2: error against the fairness ratio on a9a",
        module="dataset_constraints_fig2",
        needs="a9a",
        runs=100,
        minutes=29,
    ),
    "dataset-constraints-fig3": FigureEntry(
        title="Goh et al. 2016, Figure 3: churn and error against the churn target (public construction on a9a)",
        module="dataset_constraints_fig3",
        needs="a9a",
        runs=10,
        minutes=1,
    ),
    "margin-pursuit-fig2": FigureEntry(
        title="Holland 2019, Figure 2: the Psi-transform of margin pursuit and its inverse",
        module="margin_pursuit_fig2",
        needs="no data",
        runs=1,
        minutes=0.1,
    ),
    "margin-pursuit-fig3": FigureEntry(
        title="Holland 2019, Figures 3 and 4: error and margin distribution against gradients, beside Pegasos",
        module="margin_pursuit_fig3",
        needs="covtype, MNIST, a9a and ijcnn1",
        runs=25,
        minutes=3,
    ),
    "margin-pursuit-fig5": FigureEntry(
        title="Holland 2019, Figure 5: too weak a regulariser, and one data-driven rescaling",
        module="margin_pursuit_fig5",
        needs="covtype, MNIST, a9a and ijcnn1",
        runs=25,
        minutes=1.5,
    ),
    "sbp-fig2": FigureEntry(
        title="Cotter et al. 2012, Figure 2: test error against kernel evaluations on Adult and MNIST",
        module="sbp_fig2",
        needs="a9a and MNIST",
        runs=1,
        minutes=6,
    ),
    "sbp-fig3": FigureEntry(
        title="Cotter et al. 2012, Figure 3: test error against inner products, with random Fourier features",
        module="sbp_fig3",
        needs="a9a and MNIST",
        runs=1,
        minutes=2,
    ),
    "sbp-table": FigureEntry(
        title="Cotter et al. 2012, section 5: the batch perceptron in a quarter of LIBSVM's time",
        module="sbp_table",
        needs="a9a and MNIST, and covtype for the rows of Forest",
        runs=1,
        minutes=15,
    ),
    "slack-rescaling-table1": FigureEntry(
        title="Choi et al. 2016, Table 1: searches for the most violating label on yeast and RCV1",
        module="slack_rescaling_table1",
        needs="yeast and rcv1subset1",
        runs=10,
        minutes=70,
    ),
    "slack-rescaling-fig4": FigureEntry(
        title="Choi et al. 2016, Figures 4 and 8: objective and accuracy against time, questions and passes",
        module="slack_rescaling_fig4",
        needs="yeast and rcv1subset1",
        runs=1,
        minutes=30,
    ),
    "slack-rescaling-table2": FigureEntry(
        title="Choi et al. 2016, Table 2: slack against margin rescaling on yeast and RCV1",
        module="slack_rescaling_table2",
        needs="yeast and rcv1subset1",
        runs=3,
        minutes=9,
    ),
    "slack-rescaling-table3": FigureEntry(
        title="Choi et al. 2016, Table 3: slack against margin rescaling on hierarchies (public data)",
        module="slack_rescaling_table3",
        needs="Enron_corr, ImCLEF07A, Diatoms and cellcycle_FUN",
        runs=2,
        minutes=90,
    ),
}
