"""What this node coordinates: machines that live on a partition which it leads."""
