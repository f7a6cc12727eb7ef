"""The options of `format("penstock")`: their names, their values, and what a reader or writer is told."""
