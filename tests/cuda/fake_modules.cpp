// The fake driver's assembler, modules and launches. Its "cubin" is the PTX text after a line that names the GPU.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cuda/driver.h"  // layouts and numbers only
#include "tests/cuda/fake_objects.h"

using namespace heddle::fake;
using heddle::cuda::LaunchConfig;

namespace {

struct Link {
  char *info = nullptr, *error = nullptr;
  size_t info_bytes = 0, error_bytes = 0;
  std::string text, cubin;
};
struct Module {
  std::string text;                              // of the cubin
  std::shared_ptr<const std::string> assembled;  // what it was made of
  size_t argument_bytes = 0, shared_bytes = 0;   // as the text says
  std::map<std::string, std::unique_ptr<struct Function>> functions;
};
struct Function {
  std::string name;
  Module* module;
};

// "key N" in a text.
size_t number_after(const std::string& text, const std::string& key, size_t otherwise) {
  const size_t at = text.find(key);
  return at == std::string::npos ? otherwise : size_t(std::atoll(text.c_str() + at + key.size()));
}

}  // namespace

extern "C" {

// --- the assembler --------------------------------------------------------------------------------------------------
int cuLinkCreate_v2(unsigned count, int* options, void** values, void** out) {
  if (int r = enter("cuLinkCreate_v2")) return r;
  auto link = std::make_unique<Link>();
  for (unsigned i = 0; i < count; ++i) switch (options[i]) {
      case 3:
        link->info = static_cast<char*>(values[i]);
        break;
      case 4:
        link->info_bytes = reinterpret_cast<size_t>(values[i]);
        break;
      case 5:
        link->error = static_cast<char*>(values[i]);
        break;
      case 6:
        link->error_bytes = reinterpret_cast<size_t>(values[i]);
        break;
      case 12:
        break;
      default:
        return 1;
    }
  *out = link.release();
  born(*out, "linker");
  return 0;
}
int cuLinkAddData_v2(void* state, int type, void* data, size_t bytes, const char* name, unsigned, int*, void**) {
  if (int r = enter("cuLinkAddData_v2")) return r;
  auto* link = static_cast<Link*>(state);
  const char* text = static_cast<const char*>(data);
  if (type != 1 || !bytes || text[bytes - 1] != 0 || !name) return 1;
  link->text = text;
  if (const size_t at = link->text.find("oops"); at != std::string::npos) {
    size_t line = 1;
    for (size_t i = 0; i < at; ++i) line += text[i] == '\n';
    std::snprintf(link->error, link->error_bytes,
                  "ptxas application ptx input, line %zu; error   : Unknown symbol 'oops'\n"
                  "ptxas fatal   : Ptx assembly aborted due to errors\n",
                  line);
    return 218;
  }
  return 0;
}
int cuLinkComplete(void* state, void** cubin, size_t* bytes) {
  if (int r = enter("cuLinkComplete")) return r;
  auto* link = static_cast<Link*>(state);
  uint32_t meet;
  {
    std::lock_guard lock(control->mutex);
    control->linking_threads.insert(std::this_thread::get_id());
    control->max_linking = std::max(control->max_linking, ++control->linking);
    meet = control->meet;
  }
  for (int i = 0; i < 5000; ++i) {
    {
      std::lock_guard lock(control->mutex);
      if (control->max_linking >= meet) break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  {
    std::lock_guard lock(control->mutex);
    --control->linking;
  }
  link->cubin = "CUBIN sm_" + std::to_string(control->sm) + "\n" + link->text;
  std::snprintf(link->info, link->info_bytes, "ptxas info    : Used 12 registers\n");
  *cubin = link->cubin.data();
  *bytes = link->cubin.size() + 1;
  return 0;
}
int cuLinkDestroy(void* state) { return release<Link>("cuLinkDestroy", state); }

// --- modules --------------------------------------------------------------------------------------------------------
int cuModuleLoadData(void** out, const void* image) {
  if (int r = enter("cuModuleLoadData")) return r;
  const char first = *static_cast<const char*>(image);
  const bool is_text = first == '.' || first == '/';  // PTX: a directive or a comment
  if (!is_text && std::memcmp(image, "CUBIN sm_", 9) != 0) return invalid_image;
  auto module = std::make_unique<Module>();
  module->text = static_cast<const char*>(image);
  if (is_text && module->text.find("oops") != std::string::npos) return 218;
  const size_t begin = is_text ? 0 : module->text.find('\n') + 1;
  module->assembled = std::make_shared<const std::string>(module->text.substr(begin));
  for (auto& refused : control->refused_texts)
    if (module->text.find(refused) != std::string::npos) return invalid_image;
  // of a kernel, or of a test
  module->argument_bytes = number_after(module->text, "args[", number_after(module->text, "args ", 0));
  module->shared_bytes = number_after(module->text, "shared ", 0);
  *out = module.release();
  born(*out, "module");
  return 0;
}
int cuModuleUnload(void* module) { return release<Module>("cuModuleUnload", module); }
int cuModuleGetFunction(void** out, void* module, const char* name) {
  if (int r = enter("cuModuleGetFunction")) return r;
  auto* m = static_cast<Module*>(module);
  if (m->text.find(".entry " + std::string(name) + "(") == std::string::npos) return 500;
  auto& function = m->functions[name];
  if (!function) function = std::make_unique<Function>(Function{name, m});
  *out = function.get();
  return 0;
}
int cuFuncGetAttribute(int* value, int which, void* function) {
  if (int r = enter("cuFuncGetAttribute")) return r;
  auto* f = static_cast<Function*>(function);
  const int statics = int(f->module->shared_bytes);
  switch (which) {
    case 0:
      *value = 1024;
      return 0;
    case 1:
      *value = statics;
      return 0;
    case 3:
      *value = 16;
      return 0;
    case 4:
      *value = 12;
      return 0;
    case 8:
      *value = (48 << 10) - statics;
      return 0;
    default:
      return 1;
  }
}
int cuFuncSetAttribute(void* function, int which, int value) {
  if (int r = enter("cuFuncSetAttribute")) return r;
  std::lock_guard lock(control->mutex);
  control->function_settings[static_cast<Function*>(function)->name + " " + std::to_string(which)] = value;
  return 0;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int threads, size_t shared) {
  if (int r = enter("cuOccupancyMaxActiveBlocksPerMultiprocessor")) return r;
  *blocks = std::min(2048 / threads, shared ? int(233472 / shared) : 32);
  return 0;
}

// --- launches -------------------------------------------------------------------------------------------------------
#if FAKE_VERSION >= 11080
int cuLaunchKernelEx(const LaunchConfig* config, void* function, void** parameters, void** extra) {
  if (int r = enter("cuLaunchKernelEx")) return r;
  auto* f = static_cast<Function*>(function);
  const LaunchConfig& c = *config;
  LaunchRecord record{.kernel = f->name,
                      .text = f->module->assembled,
                      .grid = {c.grid_x, c.grid_y, c.grid_z},
                      .block = {c.block_x, c.block_y, c.block_z},
                      .cluster = {},
                      .shared = c.shared_bytes,
                      .stream = c.stream};
  for (uint32_t i = 0; i < c.attribute_count; ++i) {
    const auto& a = c.attributes[i];
    if (a.id == 4)
      std::copy_n(&a.value.cluster.x, 3, record.cluster);
    else if (a.id == 6)
      record.overlap = a.value.overlap_with_previous != 0;
    else
      return 1;
  }
  if (extra) return 1;
  if (const size_t bytes = f->module->argument_bytes) {
    const auto* from = static_cast<const std::byte*>(parameters[0]);
    record.args.assign(from, from + bytes);
  }
  put(c.stream, [record] {
    if (control->on_launch) control->on_launch(record);
    std::lock_guard lock(control->mutex);
    control->launches.push_back(record);
  });
  return 0;
}
#endif
#if FAKE_VERSION >= 12040
int cuFuncLoad(void*) { return enter("cuFuncLoad"); }
int cuFuncGetParamInfo(void* function, size_t index, size_t* offset, size_t* bytes) {
  if (int r = enter("cuFuncGetParamInfo")) return r;
  const size_t args = number_after(static_cast<Function*>(function)->module->text, "args ", 0);
  if (index > 0 || !args) return 1;
  *offset = 48;  // a real driver aligns the parameter
  *bytes = args;
  return 0;
}
#endif

}  // extern "C"
