#!POPCORN leaderboard board
import time


def custom_kernel(data):
    time.sleep(0.005)
    return data + 1
