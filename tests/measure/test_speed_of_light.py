from __future__ import annotations

import pytest

from harness.boards.board import Precision
from harness.measure.speed_of_light import Peaks, floor_ns, known_devices, peaks_for, speed_of_light_ns

PEAKS = Peaks(dram_bytes_per_s=1e12, l2_bytes=1e6, flops={Precision.FP16: 1e15, Precision.FP32: 1e14})


def gemm(m: int, n: int, k: int, products: int = 1) -> tuple[float, float]:
    """Flops and bytes of `products` GEMMs that share A: packed fp4 operands, a scale byte for 16 values, fp16 C."""
    return 2.0 * m * n * k * products, (m + products * n) * k * 9 / 16 + 2 * m * n


def grouped(ms: list[int], n: int, k: int) -> tuple[float, float]:
    parts = [gemm(m, n, k) for m in ms]
    return sum(flops for flops, _ in parts), sum(moved for _, moved in parts)


# The speed-of-light times that the public NVFP4 competition published, in microseconds.
PUBLISHED = [
    (gemm(128, 7168, 16384), 8.994),
    (gemm(128, 4096, 7168), 2.354),
    (gemm(128, 7168, 2048), 1.333),
    (gemm(256, 4096, 7168, products=2), 4.708),
    (gemm(512, 4096, 7168, products=2), 8.714),
    (gemm(256, 3072, 4096, products=2), 2.125),
    (gemm(512, 3072, 7168, products=2), 6.535),
    (grouped([80, 176, 128, 72, 64, 248, 96, 160], 4096, 7168), 18.833),
    (grouped([40, 76, 168, 72, 164, 148, 196, 160], 7168, 2048), 10.667),
    (grouped([192, 320], 3072, 4096), 2.406),
    (grouped([128, 384], 4096, 1536), 1.525),
]


@pytest.mark.parametrize(("work", "published_us"), PUBLISHED)
def test_published_times_to_the_last_digit(work: tuple[float, float], published_us: float) -> None:
    time_ns = speed_of_light_ns(*work, Precision.FP4, peaks_for("B200 (nvfp4 competition)"))
    assert time_ns is not None
    assert round(time_ns / 1e3, 3) == published_us


def test_the_longer_of_flops_and_bytes() -> None:
    assert speed_of_light_ns(1e9, 2e6, Precision.FP16, PEAKS) == pytest.approx(2000)  # 1 µs of flops, 2 µs of bytes
    assert speed_of_light_ns(3e9, 2e6, Precision.FP16, PEAKS) == pytest.approx(3000)
    assert speed_of_light_ns(3e9, 2e6, Precision.FP32, PEAKS) == pytest.approx(30000)


def test_a_precision_without_a_unit_runs_at_the_next_wider_one() -> None:
    assert PEAKS.flops_per_s(Precision.FP4) == 1e15
    assert PEAKS.flops_per_s(Precision.TF32) == 1e14
    assert PEAKS.flops_per_s(Precision.FP64) is None
    assert speed_of_light_ns(1.0, 1.0, Precision.FP64, PEAKS) is None


def test_floor_takes_no_traffic_that_fits_in_the_cache() -> None:
    assert floor_ns(1e9, 1e6, Precision.FP16, PEAKS) == pytest.approx(0.8 * 1000)
    assert floor_ns(0, 1e6, Precision.FP16, PEAKS) is None
    assert floor_ns(0, 11e6, Precision.FP16, PEAKS) == pytest.approx(0.8 * 10_000)


def test_nothing_bounds_an_unknown_device() -> None:
    assert peaks_for("Intel(R) Xeon(R)") is None
    assert speed_of_light_ns(1e9, 1e9, Precision.FP32, None) is None
    assert floor_ns(1e9, 1e9, Precision.FP32, None) is None
    assert speed_of_light_ns(0, 0, Precision.FP32, PEAKS) is None


@pytest.mark.parametrize("name", known_devices())
def test_devices_are_plausible(name: str) -> None:
    peaks = peaks_for(name)
    assert peaks is not None
    assert 1e11 < peaks.dram_bytes_per_s < 1e13
    assert 2**20 < peaks.l2_bytes < 2**28
    wide_to_narrow = (Precision.FP32, Precision.TF32, Precision.FP16, Precision.FP8, Precision.FP4)
    rates = [peaks.flops[precision] for precision in wide_to_narrow if precision in peaks.flops]
    assert rates == sorted(rates)
