// libcuda as a table of functions, found at run time: heddle builds and starts without it.
// Declarations follow the driver's public manual. Handles are void*, addresses uint64_t, enums int, as the ABI has
// them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/shared_library.h"

namespace heddle::cuda {

// --- values and layouts --------------------------------------------------------------------------------------------
namespace code {
inline constexpr int success = 0, invalid_value = 1, out_of_memory = 2, deinitialized = 4, no_device = 100,
                     invalid_ptx = 218, not_found = 500, not_ready = 600;
}
namespace device_attribute {
inline constexpr int shared_per_block = 8, clock_khz = 13, sms = 16, integrated = 18, ecc = 32, memory_clock_khz = 36,
                     bus_width = 37, l2_bytes = 38, threads_per_sm = 39, capability_major = 75, capability_minor = 76,
                     shared_per_sm = 81, registers_per_sm = 82, shared_per_block_optin = 97, blocks_per_sm = 106;
}
namespace function_attribute {
inline constexpr int max_threads = 0, shared_bytes = 1, local_bytes = 3, registers = 4, max_dynamic_shared = 8,
                     shared_carveout = 9, large_clusters = 14;
}
namespace launch_attribute {
inline constexpr int cluster = 4, overlap_with_previous = 6;  // programmatic stream serialization
}
namespace jit {
inline constexpr int info_log = 3, info_log_bytes = 4, error_log = 5, error_log_bytes = 6, log_verbose = 12;
inline constexpr int input_ptx = 1;
}  // namespace jit
inline constexpr unsigned stream_non_blocking = 1, event_untimed = 2, host_portable = 1;
inline constexpr int capture_thread_local = 1;
inline constexpr unsigned reach_peers_when_used = 1;  // of shared memory

struct MemoryHandle;

struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      uint32_t x, y, z;
    } cluster;
    int overlap_with_previous;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);
struct LaunchConfig {
  uint32_t grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  uint32_t attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56);

// --- the table ------------------------------------------------------------------------------------------------------
struct Driver {
  // Throws NoDriver. An empty path: libcuda.so.1, then libcuda.so, where the system looks for libraries.
  explicit Driver(const std::string& path);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  SharedLibrary library;
  int version;  // 13000 for CUDA 13.0; 0: unknown

  Call<int*> driver_version{*this, "cuDriverGetVersion", 2020};
  Call<unsigned> init{*this, "cuInit", 2000};
  Call<int, const char**> error_name{*this, "cuGetErrorName", 6000};
  Call<int, const char**> error_string{*this, "cuGetErrorString", 6000};

  Call<int*> device_count{*this, "cuDeviceGetCount", 2000};
  Call<int*, int> device_get{*this, "cuDeviceGet", 2000};
  Call<char*, int, int> device_name{*this, "cuDeviceGetName", 2000};
  Call<int*, int, int> device_attribute{*this, "cuDeviceGetAttribute", 2000};
  Call<size_t*, int> device_memory{*this, "cuDeviceTotalMem_v2", 3020};
  Call<char*, int, int> device_pci{*this, "cuDeviceGetPCIBusId", 4010};
  Call<void*, int> device_uuid{*this, "cuDeviceGetUuid_v2", 11040};

  Call<void**, int> context_retain{*this, "cuDevicePrimaryCtxRetain", 7000};
  Call<int> context_release{*this, "cuDevicePrimaryCtxRelease_v2", 11000};
  Call<void*> context_set{*this, "cuCtxSetCurrent", 4000};
  Call<> context_synchronize{*this, "cuCtxSynchronize", 2000};

  Call<size_t*, size_t*> memory_info{*this, "cuMemGetInfo_v2", 3020};
  Call<uint64_t*, size_t> memory_alloc{*this, "cuMemAlloc_v2", 3020};
  Call<uint64_t> memory_free{*this, "cuMemFree_v2", 3020};
  Call<void**, size_t, unsigned> host_alloc{*this, "cuMemHostAlloc", 2020};
  Call<void*> host_free{*this, "cuMemFreeHost", 2000};
  Call<uint64_t, const void*, size_t, void*> copy_to_device{*this, "cuMemcpyHtoDAsync_v2", 3020};
  Call<void*, uint64_t, size_t, void*> copy_to_host{*this, "cuMemcpyDtoHAsync_v2", 3020};
  Call<uint64_t, uint64_t, size_t, void*> copy_on_device{*this, "cuMemcpyDtoDAsync_v2", 3020};
  Call<uint64_t, unsigned char, size_t, void*> fill{*this, "cuMemsetD8Async", 3020};
  Call<MemoryHandle*, uint64_t> share_memory{*this, "cuIpcGetMemHandle", 4010};
  Call<uint64_t*, MemoryHandle, unsigned> open_shared{*this, "cuIpcOpenMemHandle_v2", 11000};
  Call<uint64_t> close_shared{*this, "cuIpcCloseMemHandle", 4010};

  Call<void**, unsigned> stream_create{*this, "cuStreamCreate", 2000};
  Call<void*> stream_destroy{*this, "cuStreamDestroy_v2", 4000};
  Call<void*> stream_synchronize{*this, "cuStreamSynchronize", 2000};
  Call<void*> stream_query{*this, "cuStreamQuery", 2000};
  Call<void*, void*, unsigned> stream_wait{*this, "cuStreamWaitEvent", 3020};
  Call<void*, int> capture_begin{*this, "cuStreamBeginCapture_v2", 10010};
  Call<void*, void**> capture_end{*this, "cuStreamEndCapture", 10000};

  Call<void**, unsigned> event_create{*this, "cuEventCreate", 2000};
  Call<void*> event_destroy{*this, "cuEventDestroy_v2", 4000};
  Call<void*, void*> event_record{*this, "cuEventRecord", 2000};
  Call<void*> event_synchronize{*this, "cuEventSynchronize", 2000};
  Call<void*> event_query{*this, "cuEventQuery", 2000};
  Call<float*, void*, void*> event_elapsed{*this, "cuEventElapsedTime", 2000};

  Call<unsigned, int*, void**, void**> link_create{*this, "cuLinkCreate_v2", 6050};
  Call<void*, int, void*, size_t, const char*, unsigned, int*, void**> link_add{*this, "cuLinkAddData_v2", 6050};
  Call<void*, void**, size_t*> link_complete{*this, "cuLinkComplete", 5050};
  Call<void*> link_destroy{*this, "cuLinkDestroy", 5050};

  Call<void**, const void*> module_load{*this, "cuModuleLoadData", 2000};
  Call<void*> module_unload{*this, "cuModuleUnload", 2000};
  Call<void**, void*, const char*> module_function{*this, "cuModuleGetFunction", 2000};
  Call<int*, int, void*> function_get{*this, "cuFuncGetAttribute", 2020};
  Call<void*, int, int> function_set{*this, "cuFuncSetAttribute", 9000};
  Call<int*, void*, int, size_t> blocks_per_sm{*this, "cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050};
  Call<void*, size_t, size_t*, size_t*> parameter_info{*this, "cuFuncGetParamInfo", 12040, true};
  Call<void*> function_load{*this, "cuFuncLoad", 12040, true};

  Call<const LaunchConfig*, void*, void**, void**> launch{*this, "cuLaunchKernelEx", 11080};

  Call<void**, void*, unsigned long long> graph_instantiate{*this, "cuGraphInstantiateWithFlags", 11040};
  Call<void*, void*> graph_launch{*this, "cuGraphLaunch", 10000};
  Call<void*, void*> graph_upload{*this, "cuGraphUpload", 11010};
  Call<void*> graph_exec_destroy{*this, "cuGraphExecDestroy", 10000};
  Call<void*> graph_destroy{*this, "cuGraphDestroy", 10000};

  Call<void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, int, int,
       int>
      tensor_map_encode{*this, "cuTensorMapEncodeTiled", 12000, true};

  std::string version_text() const;  // "13.0"
  // "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)"
  std::string reason(int code) const;
  std::string code_name(int code) const;

  // The address of a symbol; throws NoDriver that names it unless it is optional.
  void* find(const char* symbol, int since, bool optional) const;
};

// The driver of this process, initialised: the library named by HEDDLE_LIBCUDA, or the system's. Loaded by the first
// call that succeeds. Throws NoDriver, NoDevice.
const Driver& initialised_driver();
// The same, not initialised. Throws NoDriver.
const Driver& driver();

}  // namespace heddle::cuda
