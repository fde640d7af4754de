/* A libamdhip64 without a GPU: device memory is host memory, streams are queues that run when
   somebody waits for them, and kernels are handed to a callback (the emulator). Signatures and
   error codes are those of hip_runtime_api.h. Failures can be asked for, see stand_in_*. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int hipError_t;
enum { hipSuccess = 0, hipErrorInvalidValue = 1, hipErrorOutOfMemory = 2, hipErrorNoDevice = 100,
       hipErrorInvalidDevice = 101, hipErrorInvalidImage = 200, hipErrorNoBinaryForGpu = 209,
       hipErrorInvalidHandle = 400, hipErrorNotFound = 500, hipErrorNotReady = 600,
       hipErrorIllegalAddress = 700, hipErrorLaunchFailure = 719,
       hipErrorStreamCaptureUnsupported = 900 };

typedef int (*launch_callback)(const char *code, size_t code_size, const char *kernel,
                               const uint32_t *grid, const uint32_t *block, uint32_t lds,
                               const void *arguments, size_t arguments_size);

#define MAX_ITEMS 4096
typedef struct { const char *code; size_t size; } Module;
typedef struct { Module *module; char name[256]; } Function;
typedef struct { double time; int done; } Event;
typedef struct {
    enum { COPY, KERNEL, RECORD } kind;
    void *target; const void *source; size_t size;
    Function *function; uint32_t grid[3], block[3], lds; char arguments[4096];
    Event *event;
} Operation;
typedef struct { Operation *items; size_t count, room; int capturing; } Stream;

static struct {
    int devices; char chips[8][64]; int current;
    launch_callback callback;
    Stream null_stream, *streams[MAX_ITEMS]; int stream_count;
    struct { char *base; size_t size; } memory[MAX_ITEMS]; int allocations;
    int live_modules, live_events;
    char failing[64]; int failure, failure_after;
    int next_launch_error, sticky, discard;
    double clock; long calls;
} hip = { .devices = 1, .chips = { "gfx1151" } };

/* Control by the tests. */
void stand_in_reset(void) {
    hip.devices = 1; strcpy(hip.chips[0], "gfx1151"); hip.current = 0;
    hip.discard = 0; hip.failing[0] = 0; hip.next_launch_error = hip.sticky = 0;
    hip.null_stream.count = 0; hip.null_stream.capturing = 0;
    for (int i = 0; i < hip.stream_count; i++) hip.streams[i]->count = hip.streams[i]->capturing = 0;
}
void stand_in_set_callback(launch_callback callback) { hip.callback = callback; }
void stand_in_set_device(int index, const char *chip) {
    snprintf(hip.chips[index], 64, "%s", chip);
    if (index >= hip.devices) hip.devices = index + 1;
}
/* Accept launches and drop them: what is left is the caller's own overhead. */
void stand_in_discard(int discard) { hip.discard = discard; }
void stand_in_set_device_count(int count) { hip.devices = count; }
void stand_in_fail(const char *function, int code, int after) {
    snprintf(hip.failing, 64, "%s", function); hip.failure = code; hip.failure_after = after;
}
void stand_in_fail_kernel(int code) { hip.next_launch_error = code; }
void stand_in_begin_capture(Stream *s) { (s ? s : &hip.null_stream)->capturing = 1; }
void stand_in_end_capture(Stream *s) { (s ? s : &hip.null_stream)->capturing = 0; }
int stand_in_live_allocations(void) { return hip.allocations; }
int stand_in_live_modules(void) { return hip.live_modules; }
int stand_in_live_events(void) { return hip.live_events; }
int stand_in_current_device(void) { return hip.current; }
size_t stand_in_pending(Stream *s) { return (s ? s : &hip.null_stream)->count; }
/* The allocation that an address lies in, so that the callback can bound its arrays. */
int stand_in_allocation(uint64_t address, uint64_t *base, uint64_t *size) {
    for (int i = 0; i < hip.allocations; i++) {
        uint64_t start = (uint64_t)(uintptr_t)hip.memory[i].base;
        if (address >= start && address < start + hip.memory[i].size) {
            *base = start; *size = hip.memory[i].size; return 1;
        }
    }
    return 0;
}

static hipError_t enter(const char *function) {
    hip.calls++;
    if (hip.sticky) return hip.sticky;
    if (hip.failing[0] && !strcmp(hip.failing, function) && hip.failure_after-- <= 0) {
        hip.failing[0] = 0;
        return hip.failure;
    }
    return hipSuccess;
}
#define ENTER(name) do { hipError_t code_ = enter(name); if (code_) return code_; } while (0)

static Stream *stream_of(void *handle) { return handle ? (Stream *)handle : &hip.null_stream; }

static Operation *push(Stream *stream) {
    if (stream->count == stream->room) {
        stream->room = stream->room ? 2 * stream->room : 16;
        stream->items = realloc(stream->items, stream->room * sizeof(Operation));
    }
    return memset(&stream->items[stream->count++], 0, sizeof(Operation));
}

/* Run what a stream holds; an error of a kernel sticks to the device, as on hardware. */
static hipError_t drain(Stream *stream) {
    for (size_t i = 0; i < stream->count && !hip.sticky; i++) {
        Operation *op = &stream->items[i];
        if (op->kind == COPY) memcpy(op->target, op->source, op->size);
        if (op->kind == RECORD) { op->event->time = hip.clock; op->event->done = 1; }
        if (op->kind == KERNEL) {
            hip.clock += 0.25;
            if (hip.next_launch_error) { hip.sticky = hip.next_launch_error; break; }
            int code = hip.callback ? hip.callback(op->function->module->code,
                op->function->module->size, op->function->name, op->grid, op->block, op->lds,
                op->arguments, op->size) : 0;
            if (code) hip.sticky = code;
        }
    }
    stream->count = 0;
    return hip.sticky;
}

static hipError_t drain_all(void) {
    for (int i = 0; i < hip.stream_count; i++) drain(hip.streams[i]);
    return drain(&hip.null_stream);
}

hipError_t hipGetDeviceCount(int *count) {
    ENTER("hipGetDeviceCount");
    *count = hip.devices;
    return hip.devices ? hipSuccess : hipErrorNoDevice;
}
hipError_t hipGetDevice(int *device) { ENTER("hipGetDevice"); *device = hip.current; return 0; }
hipError_t hipSetDevice(int device) {
    ENTER("hipSetDevice");
    if (device < 0 || device >= hip.devices) return hipErrorInvalidDevice;
    hip.current = device;
    return hipSuccess;
}
hipError_t hipGetDevicePropertiesR0600(char *properties, int device) {
    ENTER("hipGetDevicePropertiesR0600");
    if (device < 0 || device >= hip.devices) return hipErrorInvalidDevice;
    memset(properties, 0, 1472);
    strcpy(properties, "Stand-in Graphics");
    sprintf(properties + 1160, "%s:sramecc-:xnack-", hip.chips[device]); /* gcnArchName */
    return hipSuccess;
}
hipError_t hipDeviceSynchronize(void) {
    ENTER("hipDeviceSynchronize");
    return drain_all();
}
hipError_t hipModuleLoadData(Module **module, const void *image) {
    ENTER("hipModuleLoadData");
    const unsigned char *elf = image;
    if (memcmp(elf, "\177ELF", 4)) return hipErrorInvalidImage;
    uint64_t table; uint16_t entry, count;
    memcpy(&table, elf + 40, 8); memcpy(&entry, elf + 58, 2); memcpy(&count, elf + 60, 2);
    Module *made = malloc(sizeof(Module));
    made->size = table + (size_t)entry * count;
    char *copy = malloc(made->size);
    memcpy(copy, image, made->size);
    made->code = copy;
    hip.live_modules++;
    *module = made;
    return hipSuccess;
}
hipError_t hipModuleUnload(Module *module) {
    ENTER("hipModuleUnload");
    memset((char *)module->code, 0, module->size); /* a stale function must not still work */
    free((char *)module->code);
    hip.live_modules--;
    return hipSuccess;
}
hipError_t hipModuleGetFunction(Function **function, Module *module, const char *name) {
    ENTER("hipModuleGetFunction");
    if (!strcmp(name, "absent")) return hipErrorNotFound;
    Function *made = calloc(1, sizeof(Function));
    made->module = module;
    snprintf(made->name, sizeof made->name, "%s", name);
    *function = made;
    return hipSuccess;
}
hipError_t hipModuleLaunchKernel(Function *function, uint32_t gx, uint32_t gy, uint32_t gz,
                                 uint32_t bx, uint32_t by, uint32_t bz, uint32_t lds, void *stream,
                                 void **parameters, void **extra) {
    ENTER("hipModuleLaunchKernel");
    if (!function || parameters || !extra || !gx || !gy || !gz) return hipErrorInvalidValue;
    if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != (void *)3)
        return hipErrorInvalidValue;
    if (hip.discard) return hipSuccess;
    Operation *op = push(stream_of(stream));
    op->kind = KERNEL;
    op->function = function;
    uint32_t grid[3] = { gx, gy, gz }, block[3] = { bx, by, bz };
    memcpy(op->grid, grid, sizeof grid);
    memcpy(op->block, block, sizeof block);
    op->lds = lds;
    op->size = *(size_t *)extra[3];
    memcpy(op->arguments, extra[1], op->size);
    return hipSuccess;
}
hipError_t hipMalloc(void **pointer, size_t size) {
    ENTER("hipMalloc");
    if (hip.null_stream.capturing) return hipErrorStreamCaptureUnsupported;
    if (hip.allocations == MAX_ITEMS) return hipErrorOutOfMemory;
    char *base = aligned_alloc(256, (size + 255) / 256 * 256);
    if (!base) return hipErrorOutOfMemory;
    memset(base, 0x5A, size);
    hip.memory[hip.allocations].base = base;
    hip.memory[hip.allocations++].size = size;
    *pointer = base;
    return hipSuccess;
}
hipError_t hipFree(void *pointer) {
    ENTER("hipFree");
    drain_all(); /* as documented: hipFree waits for the device */
    for (int i = 0; i < hip.allocations; i++)
        if (hip.memory[i].base == pointer) {
            memset(pointer, 0x7F, hip.memory[i].size); /* NaN in every type: a late use shows */
            free(pointer);
            hip.memory[i] = hip.memory[--hip.allocations];
            return hipSuccess;
        }
    return hipErrorInvalidValue;
}
hipError_t hipMemcpyAsync(void *target, const void *source, size_t size, int kind, void *stream) {
    ENTER("hipMemcpyAsync");
    uint64_t base, room, device = (uint64_t)(uintptr_t)(kind == 1 ? target : source);
    if ((kind != 1 && kind != 2) || !stand_in_allocation(device, &base, &room) ||
        device + size > base + room)
        return hipErrorInvalidValue;
    Operation *op = push(stream_of(stream));
    op->kind = COPY; op->target = target; op->source = source; op->size = size;
    return hipSuccess;
}
hipError_t hipStreamCreate(Stream **stream) {
    ENTER("hipStreamCreate");
    *stream = hip.streams[hip.stream_count++] = calloc(1, sizeof(Stream));
    return hipSuccess;
}
hipError_t hipStreamDestroy(Stream *stream) { ENTER("hipStreamDestroy"); return drain(stream); }
hipError_t hipStreamSynchronize(void *stream) {
    ENTER("hipStreamSynchronize");
    return drain(stream_of(stream));
}
hipError_t hipStreamIsCapturing(void *stream, int *status) {
    ENTER("hipStreamIsCapturing");
    *status = stream_of(stream)->capturing;
    return hipSuccess;
}
hipError_t hipEventCreate(Event **event) {
    ENTER("hipEventCreate");
    *event = calloc(1, sizeof(Event));
    hip.live_events++;
    return hipSuccess;
}
hipError_t hipEventDestroy(Event *event) { (void)event; hip.live_events--; return hipSuccess; }
hipError_t hipEventRecord(Event *event, void *stream) {
    ENTER("hipEventRecord");
    event->done = 0;
    Operation *op = push(stream_of(stream));
    op->kind = RECORD; op->event = event;
    return hipSuccess;
}
hipError_t hipEventQuery(Event *event) {
    ENTER("hipEventQuery");
    return event->done ? hipSuccess : hipErrorNotReady;
}
hipError_t hipEventSynchronize(Event *event) {
    ENTER("hipEventSynchronize");
    hipError_t code = drain_all();
    return code ? code : event->done ? hipSuccess : hipErrorInvalidHandle;
}
hipError_t hipEventElapsedTime(float *milliseconds, Event *first, Event *last) {
    ENTER("hipEventElapsedTime");
    if (!first->done || !last->done) return hipErrorNotReady;
    *milliseconds = (float)(last->time - first->time);
    return hipSuccess;
}
const char *hipGetErrorName(hipError_t code) {
    switch (code) {
    case hipSuccess: return "hipSuccess";
    case hipErrorInvalidValue: return "hipErrorInvalidValue";
    case hipErrorOutOfMemory: return "hipErrorOutOfMemory";
    case hipErrorNoDevice: return "hipErrorNoDevice";
    case hipErrorInvalidDevice: return "hipErrorInvalidDevice";
    case hipErrorInvalidImage: return "hipErrorInvalidImage";
    case hipErrorNoBinaryForGpu: return "hipErrorNoBinaryForGpu";
    case hipErrorNotFound: return "hipErrorNotFound";
    case hipErrorNotReady: return "hipErrorNotReady";
    case hipErrorIllegalAddress: return "hipErrorIllegalAddress";
    case hipErrorLaunchFailure: return "hipErrorLaunchFailure";
    case hipErrorStreamCaptureUnsupported: return "hipErrorStreamCaptureUnsupported";
    default: return "hipErrorUnknown";
    }
}
const char *hipGetErrorString(hipError_t code) {
    switch (code) {
    case hipErrorOutOfMemory: return "out of memory";
    case hipErrorIllegalAddress: return "an illegal memory access was encountered";
    case hipErrorLaunchFailure: return "unspecified launch failure";
    default: return "see hip_runtime_api.h";
    }
}
