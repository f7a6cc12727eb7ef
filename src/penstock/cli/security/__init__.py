"""`penstock security`: a cluster that is secured from its first start, its certificates, and where a client ends."""
