"""What a reader of the four papers needs beside widemargin: reproductions, baselines, and solvers to compare with."""

__version__ = "0.2.0"
