"""The goals file: its keys, how it is read and checked, and its JSON Schema."""
