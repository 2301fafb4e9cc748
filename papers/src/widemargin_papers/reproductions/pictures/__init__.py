"""Pictures of the reproduced figures."""
