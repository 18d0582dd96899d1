// The GPUs a kernel can be printed for, and what each has.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ptx/ir.h"

namespace heddle::ptx {

// A PTX version, 78 for 7.8.
using Version = uint32_t;

struct Target {
  std::string name;           // "sm_90a"
  uint32_t sm;                // 90
  bool specific;              // the "a" targets: instructions that only this architecture has
  Version version;            // the lowest PTX version that knows the target
  uint32_t max_shared_bytes;  // per block
};

// sm_75, 80, 86, 89, 90, 90a, 100, 100a, 120, 120a, in that order.
const std::vector<Target>& targets();
// Throws an Error that names the known ones.
const Target& target(std::string_view name);

// What an instruction needs: the lowest sm, the lowest PTX version, and for some a list of "a" targets.
struct Need {
  uint32_t sm = 75;
  Version version = 63;
  std::vector<std::string_view> only{};  // if not empty, exactly these targets
  bool operator==(const Need&) const = default;
};
Need need(const Inst& inst);
bool has(const Target& t, const Need& n);
// The mnemonic with its modifiers, as it is printed: "fma.rn.f32". Names an instruction in messages.
std::string mnemonic(const Inst& inst);

}  // namespace heddle::ptx
