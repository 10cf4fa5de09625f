"""The side that holds the submission: a make-believe device, and every launch stopped at the compiler."""
