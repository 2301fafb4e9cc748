"""The command line: `widemargin train` and `widemargin audit`, from goals file and table to model and verdict."""
