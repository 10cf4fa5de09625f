"""What changed from one submission to the next: pure functions over what the store gives. No torch, no numpy."""
