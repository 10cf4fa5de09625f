#!POPCORN leaderboard tile


def custom_kernel(data):
    a, b, _c, _ = data
    return a.float() @ b.float().T
