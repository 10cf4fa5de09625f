"""Every figure the harness shows, as pure functions of stored samples. No torch, no numpy, no I/O but one data file."""
