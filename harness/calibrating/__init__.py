"""What this device does at best, what the clock costs on it, and the noise between runs. `record` imports no torch."""
