import torch


def generate_input(size, seed):
    return torch.rand(size, generator=torch.Generator().manual_seed(seed))


def check_implementation(data, output):
    return torch.equal(output, data + 1), "not the input with 1 added"
