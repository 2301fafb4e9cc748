"""The benchmarks: every class of a module is a task; a module that begins with `_` is what some of them share."""
