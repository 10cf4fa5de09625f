"""Submit a kernel file, prove it right, measure it, rank it, and see what changed since the last one."""

__version__ = "0.1.0"
