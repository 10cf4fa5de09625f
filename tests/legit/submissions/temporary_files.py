#!POPCORN leaderboard softmax
"""Files in the temporary folder, the home folder and the working folder, read again in later calls."""

import os
import pathlib
import tempfile

import torch

HOME = pathlib.Path.home() / ".cache" / "kernel"
HOME.mkdir(parents=True, exist_ok=True)


def custom_kernel(data):
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(b"tuning")
        file.flush()
    tuned = HOME / "x".join(map(str, data.shape))
    if not tuned.exists():
        tuned.write_text("128")
    pathlib.Path("in-the-working-folder").write_text(tuned.read_text())
    assert os.path.exists("in-the-working-folder")
    return torch.softmax(data, dim=-1)
