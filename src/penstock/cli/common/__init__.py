"""What the commands have in common: the options, the way to a cluster, what is printed."""
