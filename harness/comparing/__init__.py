"""Two submissions measured against each other now, in turns, on the same inputs."""
