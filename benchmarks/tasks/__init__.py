"""The benchmarks: every module declares TASKS, by name; a module that begins with `_` is what some of them share."""
