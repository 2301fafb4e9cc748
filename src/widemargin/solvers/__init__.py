"""How it is minimised: one algorithm, one file, over the protocol of `solvers.base`."""
