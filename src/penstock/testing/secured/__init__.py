"""A cluster that is secured from its first start: an authority, certificates, users, and files for each of them."""
