"""Records and the image of the cluster that every node holds."""
