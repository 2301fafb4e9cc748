"""The stochastic batch perceptron (Cotter et al. 2012) and its water level."""
