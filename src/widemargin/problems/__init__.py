"""What is minimised: values and convex majorisations. The only place where goals meet losses."""
