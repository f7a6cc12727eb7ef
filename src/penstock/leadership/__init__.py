"""Who leads what: the plan of ideal leaders, how leadership comes to it, and where replicas should lie for both."""
