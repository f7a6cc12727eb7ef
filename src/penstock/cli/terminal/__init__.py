"""What stands between a command and who typed it: the options, the way to a cluster, what is printed."""
