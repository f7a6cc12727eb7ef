"""Machines put together from their parts, as the node runs them: one object for each partition that it leads."""
