// Launches the matmul that matmul.py saved: c = a b for 48 x 32 ones and 32 x 64 ones, f16.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include <hip/hip_runtime_api.h>

#include "gfx1151.h"

#define CHECK(call)                                                                         \
    do {                                                                                    \
        hipError_t error = (call);                                                          \
        if (error) { std::fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(error)); return 1; } \
    } while (0)

int main(int, char **argv) {
    const int64_t m = 48, k = 32, n = 64;
    std::ifstream file(argv[1], std::ios::binary);
    std::vector<char> code{std::istreambuf_iterator<char>(file), {}};
    hipModule_t module;
    hipFunction_t kernel;
    CHECK(hipModuleLoadData(&module, code.data()));
    CHECK(hipModuleGetFunction(&kernel, module, matmul_matmul_0_NAME));

    std::vector<uint16_t> a(m * k, 0x3c00), b(k * n, 0x3c00);  // 1.0 in f16
    std::vector<float> c(m * n);
    void *da, *db, *dc;
    CHECK(hipMalloc(&da, 2 * m * k));
    CHECK(hipMalloc(&db, 2 * k * n));
    CHECK(hipMalloc(&dc, 4 * m * n));
    CHECK(hipMemcpyAsync(da, a.data(), 2 * m * k, hipMemcpyHostToDevice, nullptr));
    CHECK(hipMemcpyAsync(db, b.data(), 2 * k * n, hipMemcpyHostToDevice, nullptr));

    matmul_matmul_0_sizes sizes = {};
    sizes.m = m, sizes.n = n, sizes.k = k;
    sizes.stride_a_0 = k, sizes.stride_b_0 = n, sizes.stride_c_0 = n;
    matmul_matmul_0_arguments arguments = {};
    arguments.a = (uint64_t)da, arguments.b = (uint64_t)db, arguments.c = (uint64_t)dc;
    uint32_t grid[3];
    if (const char *refusal = matmul_matmul_0_prepare(&sizes, &arguments, grid)) {
        std::fprintf(stderr, "%s\n", refusal);
        return 1;
    }
    size_t size = sizeof arguments;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE,
                     &size, HIP_LAUNCH_PARAM_END};
    CHECK(hipModuleLaunchKernel(kernel, grid[0], grid[1], grid[2], matmul_matmul_0_BLOCK_X,
                                matmul_matmul_0_BLOCK_Y, matmul_matmul_0_BLOCK_Z, 0, nullptr,
                                nullptr, extra));
    CHECK(hipMemcpyAsync(c.data(), dc, 4 * m * n, hipMemcpyDeviceToHost, nullptr));
    CHECK(hipStreamSynchronize(nullptr));
    std::printf("c[0] = %g, c[%d] = %g (expected %d)\n", c[0], int(m * n - 1), c[m * n - 1], int(k));
    return c[0] == k && c[m * n - 1] == k ? 0 : 1;
}
