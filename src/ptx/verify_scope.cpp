// A register is read only where every way there has written it: what a branch or a loop body writes counts inside it,
// what both branches write counts after them, what a loop head writes counts after the loop.
#include <algorithm>

#include "ptx/verify_rules.h"

namespace heddle::ptx {
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
  // Runs a region and takes back what it defined.
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

}  // namespace heddle::ptx
