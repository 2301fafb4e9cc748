"""The scikit-learn face: validate, bind the goal, solve, set attributes, warn."""
