"""What drives the kernel: a pipeline parsed once, its checks, and a run."""
