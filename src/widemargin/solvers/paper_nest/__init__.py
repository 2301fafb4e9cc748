"""The paper's own nest: cutting planes over multipliers and bias, around dual coordinate ascent."""
