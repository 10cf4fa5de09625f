#!POPCORN leaderboard scaled_gemm
import torch

torch.set_float32_matmul_precision("high")
FP8 = torch.float8_e4m3fn


@torch.compile(mode="max-autotune", dynamic=False)
def epilogue(y, bias):
    return torch.nn.functional.silu(y + bias)


def custom_kernel(data):
    a, b, scale_a, scale_b, bias = data
    if a.dtype == torch.uint8:
        a4, b4 = a.view(torch.float4_e2m1fn_x2), b.view(torch.float4_e2m1fn_x2)
        y = torch._scaled_mm(a4, b4.t(), scale_a, scale_b, out_dtype=torch.bfloat16)
    else:
        y = torch._scaled_mm(a.to(FP8), b.to(FP8).t(), scale_a, scale_b, out_dtype=torch.bfloat16, use_fast_accum=True)
    return epilogue(y, bias)
