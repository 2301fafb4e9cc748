"""Kernel support vector machines: the problem, its duals, stochastic methods and the batch perceptron."""
