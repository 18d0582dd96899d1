// Every instruction of the language in every variant, each as a few lines of a kernel written with the builder.
// target_test.cpp hands them to ptxas.
#pragma once
#include <vector>

#include "ptx/builder.h"
#include "tests/ptx/callable.h"

namespace heddle::ptx::instructions {

// One member of every type an argument can have.
struct Args {
  DevicePtr<uint8_t> memory;
  TensorMap map;
  uint8_t u8;
  int8_t s8;
  uint16_t u16;
  int16_t s16;
  uint32_t u32;
  int32_t s32;
  uint64_t u64;
  int64_t s64;
  heddle::f16 f16;
  heddle::bf16 bf16;
  ptx::f16x2 f16x2;
  ptx::bf16x2 bf16x2;
  float f32;
  double f64;
  ptx::tf32 tf32;
  ptx::e4m3x2 e4m3x2;
  ptx::e5m2x2 e5m2x2;
};

// A kernel with memory to take operands from. Everything here runs on sm_75 with PTX 6.3, so that what a probe adds
// alone decides where the kernel runs.
struct Stage : Builder<Args> {
  Global<uint8_t> memory;
  Shared<uint8_t> scratch;  // 1024 bytes

  // min_blocks: without it (or max_registers) ptxas ignores setmaxnreg
  explicit Stage(std::string name) : Builder(std::move(name), Launch{.threads = 128, .min_blocks = 1}) {
    memory = arg(&Args::memory);
    scratch = shared<uint8_t>(1024);
  }
  // A fresh value that ptxas cannot know.
  template <class T>
  Val<T> value() {
    if constexpr (std::same_as<T, bool>)
      return value<uint32_t>() != 0u;
    else
      return load(memory.as<T>().offset(loads_++ % 64));
  }
  template <class T>
  Global<T> global() {
    return memory.as<T>();
  }
  template <class T>
  Shared<T> shared_at() {
    return scratch.as<T>();
  }
  // Shared memory of another block, as a raw register: mapa has its own probe.
  template <class T>
  ClusterShared<T> cluster_at() {
    return {value<uint32_t>()};
  }
  // The instruction just written, to set what the builder has no call for.
  Inst& last() { return block->back(); }

 private:
  int64_t loads_ = 0;
};

using Probe = Callable<void(Stage&)>;
using Probes = std::vector<Probe>;

void add_arithmetic(Probes& all);
void add_conversions(Probes& all);
void add_memory(Probes& all);
void add_threads(Probes& all);
void add_async(Probes& all);
void add_matrix(Probes& all);
const Probes& all_probes();

// fn.operator()<T>() for each type.
template <class... T>
void types(auto&& fn) {
  (fn.template operator()<T>(), ...);
}

}  // namespace heddle::ptx::instructions
