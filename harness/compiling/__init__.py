"""Compile a submission for a GPU that is not here, and say what every kernel costs there. No torch on this side."""
