"""What a node serves: a table of handlers for each role, what is in both, and what they have in common."""

MODULES: tuple[str, ...] = (
    # in alphabetical order, one per line
    "describe_metadata",
    "describe_metrics",
)
