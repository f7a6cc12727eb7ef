"""A node put together: the only place that knows all of its parts."""
