"""Goals as text: read without evaluating anything, and printed so that they can be read back."""
