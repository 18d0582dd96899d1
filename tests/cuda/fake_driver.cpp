// The fake driver without modules and launches: devices, memory, streams, events and graphs.
#include <cstring>

#include "tests/cuda/fake_objects.h"

namespace heddle::fake {

Control* control = new Control;
thread_local void* current = nullptr;

namespace {

struct Context {
} the_context;

bool sticky(int code) { return code == 214 || code == 700 || (code >= 714 && code <= 719); }

}  // namespace

int enter(const char* name, bool needs_context) {
  std::lock_guard lock(control->mutex);
  control->calls.push_back(name);
  if (needs_context && control->lost) return control->lost;
  if (auto f = control->fail.find(name); f != control->fail.end()) {
    auto at = control->fail_at.find(name);
    if (at == control->fail_at.end() || --at->second == 0) {
      const int code = f->second;
      if (at != control->fail_at.end()) {
        control->fail_at.erase(at);
        control->fail.erase(f);
      }
      if (sticky(code)) control->lost = code;
      return code;
    }
  }
  if (needs_context && !current) return invalid_context;
  return 0;
}

uint64_t born(void* handle, const char* what) {
  std::lock_guard lock(control->mutex);
  control->live[reinterpret_cast<uint64_t>(handle)] = what;
  return reinterpret_cast<uint64_t>(handle);
}
bool gone(const void* handle) {
  std::lock_guard lock(control->mutex);
  if (control->live.erase(reinterpret_cast<uint64_t>(handle))) return true;
  ++control->wrong_releases;
  return false;
}
void put(void* stream, Work work) {
  auto* s = static_cast<Stream*>(stream);
  if (s && s->capturing)
    s->captured.push_back(std::move(work));
  else
    work();
}

void transfer(void* stream, Work work) {
  put(stream, [work = std::move(work)] {
    work();
    if (control->on_transfer) control->on_transfer();
  });
}

}  // namespace heddle::fake

using namespace heddle::fake;

extern "C" {

Control* fake_control() { return control; }
void fake_reset() {
  delete control;
  control = new Control;
}

// --- driver and devices ---------------------------------------------------------------------------------------------
int cuDriverGetVersion(int* v) {
  *v = FAKE_VERSION;
  return enter("cuDriverGetVersion", false);
}
int cuInit(unsigned) { return enter("cuInit", false); }
int cuGetErrorName(int code, const char** text) {
  static const std::map<int, const char*> names = {{1, "CUDA_ERROR_INVALID_VALUE"},
                                                   {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                   {100, "CUDA_ERROR_NO_DEVICE"},
                                                   {200, "CUDA_ERROR_INVALID_IMAGE"},
                                                   {201, "CUDA_ERROR_INVALID_CONTEXT"},
                                                   {218, "CUDA_ERROR_INVALID_PTX"},
                                                   {500, "CUDA_ERROR_NOT_FOUND"},
                                                   {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                   {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
                                                   {719, "CUDA_ERROR_LAUNCH_FAILED"}};
  auto found = names.find(code);
  *text = found == names.end() ? nullptr : found->second;
  return *text ? 0 : 1;
}
int cuGetErrorString(int code, const char** text) {
  static const std::map<int, const char*> texts = {{1, "invalid argument"},
                                                   {2, "out of memory"},
                                                   {100, "no CUDA-capable device is detected"},
                                                   {218, "a PTX JIT compilation failed"},
                                                   {500, "named symbol not found"},
                                                   {700, "an illegal memory access was encountered"},
                                                   {701, "too many resources requested for launch"},
                                                   {719, "unspecified launch failure"}};
  auto found = texts.find(code);
  *text = found == texts.end() ? nullptr : found->second;
  return *text ? 0 : 1;
}
int cuDeviceGetCount(int* n) {
  *n = control->devices;
  return enter("cuDeviceGetCount", false);
}
int cuDeviceGet(int* device, int ordinal) {
  *device = 7 + ordinal;  // so that a device is not mistaken for its number
  return enter("cuDeviceGet", false);
}
int cuDeviceGetName(char* name, int bytes, int device) {
  std::snprintf(name, size_t(bytes), "Fake GPU %d", device - 7);
  return enter("cuDeviceGetName", false);
}
int cuDeviceGetAttribute(int* value, int which, int) {
  static const std::map<int, int> values = {{8, 48 << 10}, {13, 1980000}, {16, -1},       {18, 0},      {32, 1},
                                            {36, 3201000}, {37, 6144},    {38, 60 << 20}, {39, 2048},   {75, -1},
                                            {76, -1},      {81, 233472},  {82, 65536},    {97, 232448}, {106, 32}};
  auto found = values.find(which);
  if (found == values.end()) return 1;
  *value = which == 75 ? control->sm / 10 : which == 76 ? control->sm % 10 : which == 16 ? control->sms : found->second;
  return enter("cuDeviceGetAttribute", false);
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = 8ull << 30;
  return enter("cuDeviceTotalMem_v2", false);
}
int cuDeviceGetPCIBusId(char* text, int bytes, int) {
  std::snprintf(text, size_t(bytes), "0000:1B:00.0");
  return enter("cuDeviceGetPCIBusId", false);
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int) {
  for (int i = 0; i < 16; ++i) uuid[i] = static_cast<unsigned char>(17 * i);
  return enter("cuDeviceGetUuid_v2", false);
}

// --- context --------------------------------------------------------------------------------------------------------
int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (int r = enter("cuDevicePrimaryCtxRetain", false)) return r;
  if (device < 7) return 101;
  ++control->retained;
  *context = &the_context;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  --control->retained;
  return enter("cuDevicePrimaryCtxRelease_v2", false);
}
int cuCtxSetCurrent(void* context) {
  if (int r = enter("cuCtxSetCurrent", false)) return r;
  current = context;
  return 0;
}
int cuCtxSynchronize() { return enter("cuCtxSynchronize"); }

// --- memory ---------------------------------------------------------------------------------------------------------
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = control->free_bytes;
  *total = 8ull << 30;
  return enter("cuMemGetInfo_v2");
}
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  if (int r = enter("cuMemAlloc_v2")) return r;
  if (!bytes) return 1;
  if (bytes > control->free_bytes) return 2;
  *address = control->allocate ? control->allocate(bytes) : reinterpret_cast<uint64_t>(operator new(bytes));
  born(reinterpret_cast<void*>(*address), "device memory");
  return 0;
}
int cuMemFree_v2(uint64_t address) {
  const int result = enter("cuMemFree_v2");
  if (!gone(reinterpret_cast<void*>(address))) return 1;
  if (control->give_back)
    control->give_back(address);
  else
    operator delete(reinterpret_cast<void*>(address));
  return result;
}
struct FakeMemoryHandle {
  uint64_t address;
  char rest[56];
};
int cuIpcGetMemHandle(FakeMemoryHandle* handle, uint64_t address) {
  if (int r = enter("cuIpcGetMemHandle")) return r;
  *handle = {};
  handle->address = address;
  return 0;
}
int cuIpcOpenMemHandle_v2(uint64_t* address, FakeMemoryHandle handle, unsigned flags) {
  if (int r = enter("cuIpcOpenMemHandle_v2")) return r;
  if (flags != 1) return 1;
  std::lock_guard lock(control->mutex);
  ++control->opened;
  *address = handle.address;
  return 0;
}
int cuIpcCloseMemHandle(uint64_t) {
  const int result = enter("cuIpcCloseMemHandle");
  std::lock_guard lock(control->mutex);
  --control->opened;
  return result;
}
int cuMemHostAlloc(void** data, size_t bytes, unsigned flags) {
  if (int r = enter("cuMemHostAlloc")) return r;
  if (flags != 1) return 1;
  *data = control->pinned_as_device ? reinterpret_cast<void*>(control->allocate(bytes)) : operator new(bytes);
  born(*data, "pinned memory");
  return 0;
}
int cuMemFreeHost(void* data) {
  const int result = enter("cuMemFreeHost");
  if (!gone(data)) return 1;
  if (control->pinned_as_device)
    control->give_back(reinterpret_cast<uint64_t>(data));
  else
    operator delete(data);
  return result;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  if (int r = enter("cuMemcpyHtoDAsync_v2")) return r;
  control->bytes_sent += bytes;
  transfer(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  if (int r = enter("cuMemcpyDtoHAsync_v2")) return r;
  control->bytes_fetched += bytes;
  transfer(stream, [=] { std::memcpy(to, reinterpret_cast<void*>(from), bytes); });
  return 0;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  if (int r = enter("cuMemcpyDtoDAsync_v2")) return r;
  transfer(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
  return 0;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void* stream) {
  if (int r = enter("cuMemsetD8Async")) return r;
  transfer(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return 0;
}

// --- streams and events ---------------------------------------------------------------------------------------------
int cuStreamCreate(void** stream, unsigned flags) {
  if (int r = enter("cuStreamCreate")) return r;
  if (flags != 1) return 1;
  *stream = new Stream;
  born(*stream, "stream");
  return 0;
}
int cuStreamDestroy_v2(void* stream) {
  if (static_cast<Stream*>(stream)->capturing) ++control->wrong_releases;
  return release<Stream>("cuStreamDestroy_v2", stream);
}
int cuStreamSynchronize(void*) { return enter("cuStreamSynchronize"); }
int cuStreamQuery(void*) {
  if (int r = enter("cuStreamQuery")) return r;
  return control->busy ? 600 : 0;
}
int cuStreamWaitEvent(void*, void* event, unsigned) {
  if (int r = enter("cuStreamWaitEvent")) return r;
  return event ? 0 : invalid_handle;
}
int cuStreamBeginCapture_v2(void* stream, int mode) {
  if (int r = enter("cuStreamBeginCapture_v2")) return r;
  if (mode != 1) return 1;
  static_cast<Stream*>(stream)->capturing = true;
  return 0;
}
int cuStreamEndCapture(void* stream, void** graph) {
  auto* s = static_cast<Stream*>(stream);
  const int r = enter("cuStreamEndCapture");
  s->capturing = false;
  if (r) return r;
  auto* g = new Graph{std::move(s->captured)};
  born(g, "graph");
  *graph = g;
  return 0;
}
int cuEventCreate(void** event, unsigned flags) {
  if (int r = enter("cuEventCreate")) return r;
  if (flags != 0 && flags != 2) return 1;
  *event = new Event;
  born(*event, flags ? "untimed event" : "event");
  return 0;
}
int cuEventDestroy_v2(void* event) { return release<Event>("cuEventDestroy_v2", event); }
int cuEventRecord(void* event, void*) {
  if (int r = enter("cuEventRecord")) return r;
  static_cast<Event*>(event)->when = std::chrono::steady_clock::now();
  return 0;
}
int cuEventSynchronize(void*) { return enter("cuEventSynchronize"); }
int cuEventQuery(void*) {
  if (int r = enter("cuEventQuery")) return r;
  return control->busy ? 600 : 0;
}
int cuEventElapsedTime(float* ms, void* start, void* end) {
  if (int r = enter("cuEventElapsedTime")) return r;
  *ms = std::chrono::duration<float, std::milli>(static_cast<Event*>(end)->when - static_cast<Event*>(start)->when)
            .count();
  return 0;
}

// --- graphs ---------------------------------------------------------------------------------------------------------
int cuGraphInstantiateWithFlags(void** out, void* graph, unsigned long long flags) {
  if (int r = enter("cuGraphInstantiateWithFlags")) return r;
  if (flags) return 1;
  *out = new Graph{static_cast<Graph*>(graph)->nodes};
  born(*out, "executable graph");
  return 0;
}
int cuGraphLaunch(void* graph, void*) {
  if (int r = enter("cuGraphLaunch")) return r;
  for (auto& node : static_cast<Graph*>(graph)->nodes) node();
  return 0;
}
int cuGraphUpload(void*, void*) { return enter("cuGraphUpload"); }
int cuGraphExecDestroy(void* graph) { return release<Graph>("cuGraphExecDestroy", graph); }
int cuGraphDestroy(void* graph) { return release<Graph>("cuGraphDestroy", graph); }

#if FAKE_VERSION >= 12000
int cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* address, const uint64_t* size,
                           const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                           int interleave, int swizzle, int promotion, int fill) {
  if (int r = enter("cuTensorMapEncodeTiled")) return r;
  if (interleave || promotion || fill) return 1;
  auto& seen = control->tensor_map;
  seen = {type, rank, int64_t(address)};
  for (uint32_t i = 0; i < rank; ++i) seen.push_back(int64_t(size[i]));
  for (uint32_t i = 0; i + 1 < rank; ++i) seen.push_back(int64_t(strides[i]));
  for (uint32_t i = 0; i < rank; ++i) seen.push_back(box[i] * element_strides[i]);
  seen.push_back(swizzle);
  std::memset(map, 0xab, 128);
  return 0;
}
#endif

}  // extern "C"
