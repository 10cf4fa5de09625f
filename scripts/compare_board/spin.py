import time

import torch

SLOWER = 0


def custom_kernel(data):
    x, length, extra = data
    length += SLOWER * extra
    if x.is_cuda:
        torch.cuda._sleep(length)
    else:
        end = time.perf_counter_ns() + length
        while time.perf_counter_ns() < end:
            pass
    return x + 1
