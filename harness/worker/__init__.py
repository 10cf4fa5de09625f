"""The untrusted side: what runs in the process that holds the submission. Nothing it says is believed."""

START_FAILED = 70
"""Exit code of a worker that could not be put into its sandbox; the last line of its log says why."""
