"""Tables on disk: reading, roles of columns, blocks, writing."""
