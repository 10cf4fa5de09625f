#!POPCORN leaderboard vectoradd
"""Programs started while importing and in the first call: how many processors, which compiler."""

import subprocess
import sys

PROCESSORS = int(subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout)
VERSION = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True, check=True).stdout
SEEN = set()


def custom_kernel(data):
    a, b = data
    if a.shape not in SEEN:
        SEEN.add(a.shape)
        subprocess.run("uname -a > /dev/null", shell=True, check=True)
    return a + b
