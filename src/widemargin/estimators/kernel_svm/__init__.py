"""Kernel classifiers: the drop-in for SVC, the batch perceptron, the Perceptron, and their searches."""
