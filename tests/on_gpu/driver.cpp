#include "tests/on_gpu/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <thread>

namespace heddle::gpu_test {

// --- what the driver's headers would declare ----------------------------------------------------------------------
namespace {

constexpr int not_ready = 600;
constexpr int attribute_cluster = 4;   // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
constexpr int max_dynamic_shared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr int capability_major = 75, capability_minor = 76;
enum JitOption { info_log = 3, info_log_bytes = 4, error_log = 5, error_log_bytes = 6 };

struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      uint32_t x, y, z;
    } cluster;
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

// Errors after which every call in the context fails: illegal address, launch failure, trap, misaligned address, ...
bool is_sticky(int code) {
  return code == 214 || code == 220 || (code >= 700 && code != 701 && code != 704 && code != 705 && code < 800);
}

}  // namespace

struct Functions {
  int (*init)(unsigned);
  int (*driver_version)(int*);
  int (*device_count)(int*);
  int (*device_get)(int*, int);
  int (*device_name)(char*, int, int);
  int (*device_attribute)(int*, int, int);
  int (*context_retain)(void**, int);
  int (*context_release)(int);
  int (*context_set)(void*);
  int (*alloc)(uint64_t*, size_t);
  int (*free)(uint64_t);
  int (*to_device)(uint64_t, const void*, size_t);
  int (*to_host)(void*, uint64_t, size_t);
  int (*memset)(uint64_t, unsigned char, size_t);
  int (*module_load)(void**, const void*, unsigned, int*, void**);
  int (*module_unload)(void*);
  int (*module_function)(void**, void*, const char*);
  int (*function_attribute)(void*, int, int);
  int (*launch)(const LaunchConfig*, void*, void**, void**);
  int (*stream_query)(void*);
  int (*error_name)(int, const char**);
  int (*error_string)(int, const char**);
  int (*encode_tiled)(void*, int type, uint32_t rank, void* address, const uint64_t* size, const uint64_t* strides,
                      const uint32_t* box, const uint32_t* element_strides, int interleave, int swizzle, int promotion,
                      int fill);  // null before CUDA 12

  void check(int code, const std::string& what) const {
    if (code == 0) return;
    const char *name = nullptr, *text = nullptr;
    error_name(code, &name), error_string(code, &text);
    throw DriverError(
        fmt::format("{}: {} ({})", what, text ? text : "unknown error", name ? name : fmt::format("{}", code).c_str()),
        code, is_sticky(code));
  }
};

namespace {

Functions* load_functions() {
  void* lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!lib) throw NoGpu(fmt::format("no libcuda: {}", dlerror()));
  static Functions f;
  auto get = [&](auto& to, const char* name, bool needed = true) {
    to = reinterpret_cast<std::decay_t<decltype(to)>>(dlsym(lib, name));
    if (!to && needed) throw NoGpu(fmt::format("this libcuda has no {}", name));
  };
  get(f.init, "cuInit");
  get(f.driver_version, "cuDriverGetVersion");
  get(f.device_count, "cuDeviceGetCount");
  get(f.device_get, "cuDeviceGet");
  get(f.device_name, "cuDeviceGetName");
  get(f.device_attribute, "cuDeviceGetAttribute");
  get(f.context_retain, "cuDevicePrimaryCtxRetain");
  get(f.context_release, "cuDevicePrimaryCtxRelease_v2");
  get(f.context_set, "cuCtxSetCurrent");
  get(f.alloc, "cuMemAlloc_v2");
  get(f.free, "cuMemFree_v2");
  get(f.to_device, "cuMemcpyHtoD_v2");
  get(f.to_host, "cuMemcpyDtoH_v2");
  get(f.memset, "cuMemsetD8_v2");
  get(f.module_load, "cuModuleLoadDataEx");
  get(f.module_unload, "cuModuleUnload");
  get(f.module_function, "cuModuleGetFunction");
  get(f.function_attribute, "cuFuncSetAttribute");
  get(f.launch, "cuLaunchKernelEx");
  get(f.stream_query, "cuStreamQuery");
  get(f.error_name, "cuGetErrorName");
  get(f.error_string, "cuGetErrorString");
  get(f.encode_tiled, "cuTensorMapEncodeTiled", false);
  return &f;
}

}  // namespace

// --- device -------------------------------------------------------------------------------------------------------
Device::Device() : functions_(load_functions()) {
  int count = 0;
  if (int code = functions_->init(0); code != 0) {
    const char* text = nullptr;
    functions_->error_string(code, &text);
    throw NoGpu(fmt::format("no GPU: cuInit: {}", text ? text : "unknown error"));
  }
  if (functions_->device_count(&count) != 0 || count == 0) throw NoGpu("no GPU: the driver finds none");
  functions_->check(functions_->device_get(&device_, 0), "cuDeviceGet");
  char text[256] = {};
  functions_->check(functions_->device_name(text, sizeof text, device_), "cuDeviceGetName");
  name_ = text;
  int major = 0, minor = 0;
  functions_->check(functions_->device_attribute(&major, capability_major, device_), "cuDeviceGetAttribute");
  functions_->check(functions_->device_attribute(&minor, capability_minor, device_), "cuDeviceGetAttribute");
  sm_ = uint32_t(10 * major + minor);
  functions_->check(functions_->context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  use();
}
Device::~Device() { functions_->context_release(device_); }

std::string Device::driver_version() const {
  int v = 0;
  functions_->check(functions_->driver_version(&v), "cuDriverGetVersion");
  return fmt::format("{}.{}", v / 1000, v % 1000 / 10);
}
void Device::use() const { functions_->check(functions_->context_set(context_), "cuCtxSetCurrent"); }
// --- memory -------------------------------------------------------------------------------------------------------
Buffer::Buffer(const Device& d, size_t bytes) : device_(d) {
  d.call().check(d.call().alloc(&address_, bytes ? bytes : 1), fmt::format("cuMemAlloc of {} bytes", bytes));
}
Buffer::~Buffer() { device_.call().free(address_); }
void Buffer::fill(uint8_t value, size_t bytes) {
  device_.call().check(device_.call().memset(address_, value, bytes), "cuMemsetD8");
}
void Buffer::put(const std::vector<uint8_t>& data) {
  if (!data.empty()) device_.call().check(device_.call().to_device(address_, data.data(), data.size()), "cuMemcpyHtoD");
}
std::vector<uint8_t> Buffer::get(size_t bytes) const {
  std::vector<uint8_t> data(bytes);
  if (bytes) device_.call().check(device_.call().to_host(data.data(), address_, bytes), "cuMemcpyDtoH");
  return data;
}

// --- modules ------------------------------------------------------------------------------------------------------
Module::Module(const Device& d, const std::string& ptx, const std::string& kernel) : device_(d) {
  std::vector<char> log(8192);
  int options[] = {error_log, error_log_bytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  const int code = d.call().module_load(&module_, ptx.c_str(), 2, options, values);
  log.back() = 0;
  d.call().check(code, fmt::format("cuModuleLoadDataEx: {}", log.data()));
  d.call().check(d.call().module_function(&function_, module_, kernel.c_str()), "cuModuleGetFunction " + kernel);
}
Module::~Module() {
  if (module_) device_.call().module_unload(module_);
}

void Module::run(const ptx::Kernel& kernel, ptx::Grid grid, uint32_t shared_bytes, const void* args,
                 double seconds) const {
  const Functions& f = device_.call();
  if (shared_bytes > 48 * 1024)
    f.check(f.function_attribute(function_, max_dynamic_shared, int(shared_bytes)),
            fmt::format("{} bytes of shared memory", shared_bytes));
  LaunchAttribute cluster{};
  cluster.id = attribute_cluster;
  cluster.value.cluster = {kernel.cluster_x, kernel.cluster_y, kernel.cluster_z};
  const bool clustered = kernel.cluster() > 1;
  const LaunchConfig config{grid.x,
                            grid.y,
                            grid.z,
                            kernel.threads_x,
                            kernel.threads_y,
                            kernel.threads_z,
                            shared_bytes,
                            nullptr,
                            clustered ? &cluster : nullptr,
                            clustered ? 1u : 0u};
  void* params[] = {const_cast<void*>(args)};
  f.check(f.launch(&config, function_, params, nullptr), "cuLaunchKernelEx");
  const auto start = std::chrono::steady_clock::now();
  for (int code = not_ready; code != 0;) {
    code = f.stream_query(nullptr);
    if (code != 0 && code != not_ready) f.check(code, "the kernel failed");
    const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (code && waited > seconds)
      throw DriverError(fmt::format("the kernel did not end within {} s", seconds), hung, true);
    if (code && waited > 0.001) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// --- tensor maps --------------------------------------------------------------------------------------------------
ptx::TensorMap encode(const Device& d, const ptx::TensorMapSpec& spec) {
  using ptx::Type;
  if (!d.call().encode_tiled) throw DriverError("this driver has no tensor maps", 0, false);
  int type = -1;
  switch (spec.type) {
    case Type::u8:
      type = 0;
      break;
    case Type::u16:
      type = 1;
      break;
    case Type::u32:
      type = 2;
      break;
    case Type::s32:
      type = 3;
      break;
    case Type::u64:
      type = 4;
      break;
    case Type::s64:
      type = 5;
      break;
    case Type::f16:
      type = 6;
      break;
    case Type::f32:
      type = 7;
      break;
    case Type::f64:
      type = 8;
      break;
    case Type::bf16:
      type = 9;
      break;
    default:
      throw DriverError(fmt::format("no tensor map of {}", ptx::name(spec.type)), 0, false);
  }
  const std::array<uint32_t, 5> ones{1, 1, 1, 1, 1};
  ptx::TensorMap map;
  // the strides begin with dimension 1; no interleaving, no promotion in L2, zeros outside
  d.call().check(
      d.call().encode_tiled(map.words.data(), type, spec.rank, reinterpret_cast<void*>(spec.address), spec.size.data(),
                            spec.stride.data() + 1, spec.box.data(), ones.data(), 0, int(spec.swizzle), 0, 0),
      "cuTensorMapEncodeTiled");
  return map;
}

}  // namespace heddle::gpu_test
