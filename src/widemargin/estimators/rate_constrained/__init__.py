"""Linear and kernel classifiers trained to a goal; the public classes and the steps of their fits."""
