#pragma once

void custom_kernel(const float* a, const float* b, float* out, int size);
