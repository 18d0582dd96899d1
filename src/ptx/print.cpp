// Kernel -> PTX text: the module around the instructions.
#include "ptx/print.h"

#include <algorithm>

#include "base/error.h"
#include "ptx/print_body.h"

namespace heddle::ptx {
namespace {

void raise(Version& v, const Block& b) {
  for (const Inst& i : b) {
    v = std::max(v, need(i).version);
    raise(v, i.head);
    raise(v, i.body);
    raise(v, i.otherwise);
  }
}

Version version(const Kernel& kernel, const Target& target) {
  Version v = std::max(target.version, Version(63));
  if (kernel.cluster() > 1) v = std::max(v, Version(78));  // .reqnctapercluster
  raise(v, kernel.body);
  return v;
}

// File names may hold anything; PTX may not.
std::string ascii(std::string s) {
  for (char& c : s)
    if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') c = '?';
  return s;
}

// What the kernel keeps outside its registers.
std::string memory(const Kernel& k) {
  std::string t;
  if (k.shared_at_launch())
    t += fmt::format(".extern .shared .align {} .b8 smem[];\n", k.shared_align);
  else if (k.shared_bytes)
    t += fmt::format(".shared .align {} .b8 smem[{}];\n", k.shared_align, k.shared_bytes);
  if (!k.constants.empty())
    t += fmt::format(".const .align 16 .b8 constants[{}] = {{{}}};\n", k.constants.size(), fmt::join(k.constants, ","));
  return t;
}

std::string entry(const Kernel& k) {
  std::string t = fmt::format(".visible .entry {}(", k.name);
  if (k.args_bytes) t += fmt::format(".param .align {} .b8 args[{}]", k.args_align, k.args_bytes);
  t += ")\n";
  // .reqntid, not .maxntid: the block size is part of the kernel, so a launch with another must fail.
  t += fmt::format(".reqntid {}, {}, {}\n", k.threads_x, k.threads_y, k.threads_z);
  if (k.min_blocks) t += fmt::format(".minnctapersm {}\n", k.min_blocks);
  if (k.max_registers) t += fmt::format(".maxnreg {}\n", k.max_registers);
  if (k.cluster() > 1) t += fmt::format(".reqnctapercluster {}, {}, {}\n", k.cluster_x, k.cluster_y, k.cluster_z);
  return t;
}

}  // namespace

std::string print(const Kernel& kernel, const Target& target, PrintOptions options) {
  if (kernel.name == "smem" || kernel.name == "constants")
    throw Error("kernel {}: this name stands for its own memory in the text", kernel.name);
  const Body body(kernel, options.lines);
  const Version v = version(kernel, target);
  std::string t = fmt::format(".version {}.{}\n.target {}\n.address_size 64\n", v / 10, v % 10, target.name);
  for (size_t f = 0; f < body.files().size(); ++f) t += fmt::format(".file {} \"{}\"\n", f + 1, ascii(body.files()[f]));
  t += memory(kernel) + "\n" + entry(kernel);
  return t + "{\n" + body.registers() + body.text() + "  ret;\n}\n";
}

}  // namespace heddle::ptx
