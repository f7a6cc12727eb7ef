"""Between record batches on the wire and columns of Arrow: kernels that numba compiles, and what leads up to them."""
