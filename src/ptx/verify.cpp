// What a kernel must satisfy: the order of the rules, and those about the kernel as a whole.
#include "ptx/verify.h"

#include <algorithm>
#include <bit>

#include "ptx/verify_rules.h"

namespace heddle::ptx {

// A register is read only where every way there has written it: what a branch or a loop body writes counts inside it,
// what both branches write counts after them, what a loop head writes counts after the loop.

namespace {

class Definitions {
 public:
  explicit Definitions(const Kernel& k) : kernel_(k), defined_(k.regs.size(), false) {}

  void block(const Block& b) {
    for (const Inst& i : b) {
      if (i.op == Op::loop) {
        block(i.head);
        read(i, i.src[0]);
        leave(i.body);
        continue;
      }
      for (const Operand& s : i.src) read(i, s);
      if (i.op == Op::wgmma && !overwrites(i))
        for (const Operand& d : i.dst) read(i, d);
      if (i.op == Op::when) branch(i);
      for (const Operand& d : i.dst) define(d.reg);
    }
  }

 private:
  // wgmma adds to its accumulator unless the predicate says never.
  static bool overwrites(const Inst& i) { return i.src.back().kind == Operand::Kind::imm && !i.src.back().bits; }

  void read(const Inst& i, const Operand& o) const {
    if (o.kind == Operand::Kind::reg && !defined_[o.reg])
      refuse(kernel_, i,
             "reads register {} ({}), which may not have been written here: a value made inside a when or loop body "
             "ends with it",
             o.reg, name(o.type));
  }
  void define(uint32_t r) {
    if (defined_[r]) return;
    defined_[r] = true;
    made_.push_back(r);
  }
  // Checks a region and forgets what it defined.
  std::vector<uint32_t> leave(const Block& b) {
    const size_t mark = made_.size();
    block(b);
    std::vector<uint32_t> inner(made_.begin() + ptrdiff_t(mark), made_.end());
    made_.resize(mark);
    for (uint32_t r : inner) defined_[r] = false;
    return inner;
  }
  void branch(const Inst& i) {
    std::vector<uint32_t> a = leave(i.body), b = leave(i.otherwise), both;
    if (a.empty() || b.empty()) return;
    std::ranges::sort(a);
    std::ranges::sort(b);
    std::ranges::set_intersection(a, b, std::back_inserter(both));
    for (uint32_t r : both) define(r);
  }

  const Kernel& kernel_;
  std::vector<bool> defined_;
  std::vector<uint32_t> made_;  // in order, since the start
};

}  // namespace

void verify_scope(const Kernel& k) { Definitions(k).block(k.body); }

namespace {

// A letter first, or _ or $ with something after it; then letters, digits, _ and $.
bool is_identifier(const std::string& s) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  auto follows = [&](char c) { return letter(c) || digit(c) || c == '_' || c == '$'; };
  if (s.empty() || s == "WARP_SZ" || !std::ranges::all_of(s, follows)) return false;
  return letter(s[0]) || (!digit(s[0]) && s.size() > 1);
}

bool can_be_held(Type t) { return t != Type::none && (t == Type::pred || size_of(t) > 1); }

template <class... Args>
void expect(const Kernel& k, bool ok, fmt::format_string<Args...> why, Args&&... args) {
  if (!ok) throw Error("kernel {}: {}", k.name, fmt::format(why, std::forward<Args>(args)...));
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string s;
  for (std::string_view n : names) s.append(s.empty() ? "" : " or ").append(n);
  return s;
}

}  // namespace

void verify_kernel(const Kernel& k) {
  expect(k, is_identifier(k.name), "the name is not a PTX identifier: ASCII letters, digits, _ and $, no digit first");
  const uint64_t threads = uint64_t(k.threads_x) * k.threads_y * k.threads_z;
  expect(k, threads >= 32 && threads <= 1024 && threads % 32 == 0,
         "a block of {} x {} x {} threads; expected a multiple of 32 from 32 to 1024", k.threads_x, k.threads_y,
         k.threads_z);
  expect(k, k.threads_z <= 64, "a block of {} threads along z; at most 64", k.threads_z);
  const uint64_t cluster = uint64_t(k.cluster_x) * k.cluster_y * k.cluster_z;
  expect(k, cluster >= 1 && cluster <= 16,
         "a cluster of {} x {} x {} blocks; expected 1 to 16 (8 on every GPU with clusters)", k.cluster_x, k.cluster_y,
         k.cluster_z);
  expect(k, k.min_blocks * threads <= 2048, "{} blocks of {} threads per SM; an SM holds 2048 threads", k.min_blocks,
         threads);
  expect(k, k.max_registers <= 255, "{} registers per thread; at most 255", k.max_registers);
  expect(k, k.args_bytes <= 4096, "{} bytes of arguments; at most 4096, which every target takes", k.args_bytes);
  expect(k, std::has_single_bit(k.args_align), "arguments aligned to {} bytes; expected a power of two", k.args_align);
  expect(k, std::has_single_bit(k.shared_align), "shared memory aligned to {} bytes; expected a power of two",
         k.shared_align);
  expect(k, k.constants.size() <= 65536, "{} bytes of constants; at most 65536", k.constants.size());
  for (size_t r = 0; r < k.regs.size(); ++r)
    expect(k, can_be_held(k.regs[r]), "register {} is {}; 8-bit values are held widened to 32 bits", r,
           name(k.regs[r]));
}

void verify_waits(const Kernel& k) {
  const Inst* first[256] = {};  // the first instruction of each Op
  each_instruction(k.body, [&](const Inst& i) {
    if (!first[size_t(i.op)]) first[size_t(i.op)] = &i;
  });
  auto used = [&](Op op) { return first[size_t(op)] != nullptr; };
  auto expect = [&](Op op, bool waited, const char* how) {
    if (used(op) && !waited) refuse(k, *first[size_t(op)], "nothing in the kernel waits for it: {}", how);
  };
  const bool polled = used(Op::mbarrier_test) || used(Op::mbarrier_try);
  expect(Op::cp_async,
         (used(Op::cp_async_commit) && used(Op::cp_async_wait)) || (used(Op::cp_async_mbarrier) && polled),
         "expected cp_async_commit and cp_async_wait, or cp_async_mbarrier and a wait on it");
  for (Op op : {Op::bulk_load, Op::bulk_shared, Op::tensor_load}) expect(op, polled, "expected a wait on its mbarrier");
  for (Op op : {Op::bulk_store, Op::tensor_store})
    expect(op, used(Op::bulk_commit) && used(Op::bulk_wait), "expected bulk_commit and bulk_wait");
  expect(Op::wgmma, used(Op::wgmma_commit) && used(Op::wgmma_wait), "expected wgmma_commit and wgmma_wait");
}

void verify_target(const Kernel& k, const Target& t) {
  if (k.cluster() > 1 && t.sm < 90)
    throw Error("kernel {}: a cluster of {} blocks needs sm_90, target is {}", k.name, k.cluster(), t.name);
  each_instruction(k.body, [&](const Inst& i) {
    const Need n = need(i);
    if (has(t, n)) return;
    refuse(k, i, "needs {}, target is {}", n.only.empty() ? fmt::format("sm_{}", n.sm) : joined(n.only), t.name);
  });
  if (k.shared_bytes > t.max_shared_bytes)
    throw TooMuchShared(fmt::format("kernel {}: {} bytes of shared memory; a block has at most {} on {}", k.name,
                                    k.shared_bytes, t.max_shared_bytes, t.name));
}

void verify(const Kernel& kernel) {
  verify_kernel(kernel);
  verify_types(kernel);
  verify_scope(kernel);
  verify_addresses(kernel);
  verify_uniformity(kernel);
  verify_waits(kernel);
}

void verify(const Kernel& kernel, const Target& target) {
  verify(kernel);
  verify_target(kernel, target);
}

}  // namespace heddle::ptx
