"""What predictions reach of a goal: rates, intervals, verdicts, reports and trade-off paths."""
