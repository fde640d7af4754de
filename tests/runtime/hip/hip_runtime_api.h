/* The few declarations of HIP's own header that the example uses, for building it without ROCm. */
#ifndef STAND_IN_HIP_RUNTIME_API_H
#define STAND_IN_HIP_RUNTIME_API_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef int hipError_t;
typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct ihipStream_t *hipStream_t;
typedef void *hipDeviceptr_t;
#define hipSuccess 0
#define hipMemcpyHostToDevice 1
#define hipMemcpyDeviceToHost 2
#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x02)
#define HIP_LAUNCH_PARAM_END ((void *)0x03)
hipError_t hipMalloc(void **pointer, size_t size);
hipError_t hipMemcpyAsync(void *target, const void *source, size_t size, int kind, hipStream_t s);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipModuleLoadData(hipModule_t *module, const void *image);
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name);
hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz,
    unsigned bx, unsigned by, unsigned bz, unsigned lds, hipStream_t s, void **kp, void **extra);
const char *hipGetErrorString(hipError_t error);
#ifdef __cplusplus
}
#endif
#endif
