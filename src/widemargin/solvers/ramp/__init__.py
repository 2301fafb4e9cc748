"""From convex steps to a model that meets its bounds: majorisation, starts, tightening, feasibility."""
