"""Commands about the cluster as a whole: who is in it, who decides, what is configured."""
