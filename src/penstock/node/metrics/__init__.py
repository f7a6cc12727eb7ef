"""What a node says of itself in numbers: metrics with a name, a unit, labels and a help text, in one registry."""
