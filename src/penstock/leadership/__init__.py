"""Who leads what: the plan of ideal leaders, and how leadership comes to it, one move at a time."""
