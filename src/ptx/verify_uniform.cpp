// Which threads agree on a value, and which instructions therefore may stand under which conditions. A level per
// register, from Uniform::grid (the same everywhere) to Uniform::lane (assume nothing), raised until nothing changes;
// the level of a condition is that of everything written under it, because threads that did not pass there kept the old
// value.
#include <algorithm>
#include <optional>

#include "ptx/verify_rules.h"

namespace heddle::ptx {
namespace {

const char* threads_of(Uniform u) {
  switch (u) {
    case Uniform::grid:
      return "the whole grid";
    case Uniform::cluster:
      return "the whole cluster";
    case Uniform::block:
      return "the whole block";
    case Uniform::group:
      return "all four warps of a group";
    case Uniform::warp:
      return "all lanes of a warp";
    case Uniform::lane:
      return "one lane";
  }
  return "?";
}
const char* difference(Uniform u) {
  switch (u) {
    case Uniform::grid:
      return "never";
    case Uniform::cluster:
      return "from cluster to cluster";
    case Uniform::block:
      return "from block to block";
    case Uniform::group:
      return "from group to group of four warps";
    case Uniform::warp:
      return "from warp to warp";
    case Uniform::lane:
      return "from lane to lane";
  }
  return "?";
}

// Which threads must reach the instruction together.
std::optional<Uniform> together(const Inst& i) {
  switch (i.op) {
    case Op::cluster_arrive:
    case Op::cluster_wait:
      return Uniform::cluster;
    case Op::barrier:
      return i.src.size() > 1 ? Uniform::warp : Uniform::block;  // with a count: whole warps
    case Op::barrier_reduce:
      return Uniform::block;
    case Op::wgmma:
    case Op::wgmma_fence:
    case Op::wgmma_commit:
    case Op::wgmma_wait:
    case Op::setmaxnreg:
      return Uniform::group;
    case Op::barrier_arrive:
    case Op::warp_sync:
    case Op::shuffle:
    case Op::vote:
    case Op::match:
    case Op::redux:
    case Op::elect:
    case Op::ldmatrix:
    case Op::stmatrix:
    case Op::mma:
      return Uniform::warp;
    default:
      return std::nullopt;
  }
}

class Levels {
 public:
  explicit Levels(const Kernel& k) : kernel_(k), level_(k.regs.size(), Uniform::grid) {}

  void settle() {
    do {
      changed_ = false;
      raise(kernel_.body, Uniform::grid);
    } while (changed_);
  }
  void check() { check(kernel_.body, Uniform::grid); }

 private:
  Uniform level(Special s) const {
    switch (s) {
      case Special::ntid_x:
      case Special::ntid_y:
      case Special::ntid_z:
      case Special::nctaid_x:
      case Special::nctaid_y:
      case Special::nctaid_z:
      case Special::cluster_blocks:
        return Uniform::grid;
      case Special::clusterid_x:
      case Special::clusterid_y:
      case Special::clusterid_z:
        return Uniform::cluster;
      case Special::ctaid_x:
      case Special::ctaid_y:
      case Special::ctaid_z:
      case Special::cluster_rank:
      case Special::smid:
        return Uniform::block;
      // tid.x / 128 and tid.x / 32 number groups and warps where a row of threads is whole groups or warps.
      case Special::group:
        return whole(128) ? Uniform::group : whole(32) ? Uniform::warp : Uniform::lane;
      case Special::warp:
        return whole(32) ? Uniform::warp : Uniform::lane;
      case Special::tid_x:
      case Special::tid_y:
      case Special::tid_z:
      case Special::lane:
      case Special::clock:
      case Special::globaltimer:
        return Uniform::lane;
    }
    return Uniform::lane;
  }
  bool whole(uint32_t threads) const {
    return kernel_.threads_x % threads == 0 || kernel_.threads_x == kernel_.threads();
  }

  Uniform level(const Operand& o) const {
    if (o.kind == Operand::Kind::reg) return level_[o.reg];
    return o.kind == Operand::Kind::special ? level(o.special) : Uniform::grid;
  }

  // The level of result `d`, when all threads that come here agree on the sources up to `sources`.
  Uniform result(const Inst& i, size_t d, Uniform sources) const {
    switch (i.op) {
      case Op::load:  // memory that no thread writes gives equal values for equal addresses
        return i.nc || i.space == Space::param || i.space == Space::constant ? sources : Uniform::lane;
      case Op::shuffle:
        return shuffled(i, d);
      case Op::vote:
      case Op::redux:
        return std::min(sources, Uniform::warp);
      case Op::match:
        return i.match_all ? std::min(sources, Uniform::warp) : sources;
      case Op::barrier_reduce:
        return std::min(sources, Uniform::block);
      case Op::assume_uniform:
        return std::min(sources, i.uniform);
      case Op::atom:
      case Op::active_mask:
      case Op::elect:
      case Op::mbarrier_arrive:
      case Op::mbarrier_test:
      case Op::mbarrier_try:
      case Op::ldmatrix:
      case Op::mma:
      case Op::wgmma:
        return Uniform::lane;
      default:
        return sources;
    }
  }
  // One lane's value for the whole warp: named by all, in one segment (bits 8-12 of the clamp are 0). A value that the
  // warp agrees on stays what it is, whichever lane gives it.
  Uniform shuffled(const Inst& i, size_t d) const {
    const Uniform value = level(i.src[0]), lane = level(i.src[1]);
    const bool one = i.shuffle == ShuffleMode::idx && lane <= Uniform::warp && !(i.src[2].bits >> 8);
    if (d == 1) return one ? lane : Uniform::lane;
    if (value <= Uniform::warp) return value;
    return one ? Uniform::warp : Uniform::lane;
  }

  void raise(const Block& b, Uniform control) {
    for (const Inst& i : b) {
      if (i.op == Op::loop || i.op == Op::when) {
        // A thread that left the loop does not run its head again.
        const Uniform inner = std::max(control, level(i.src[0]));
        raise(i.head, inner);
        raise(i.body, inner);
        raise(i.otherwise, inner);
        continue;
      }
      if (i.dst.empty()) continue;
      Uniform sources = Uniform::grid;
      for (const Operand& s : i.src) sources = std::max(sources, level(s));
      for (size_t d = 0; d < i.dst.size(); ++d) {
        const Uniform u = std::max(control, result(i, d, sources));
        Uniform& known = level_[i.dst[d].reg];
        if (known < u) {
          known = u;
          changed_ = true;
        }
      }
    }
  }

  // In a block of one warp (or one group) its lanes are the block; a cluster of one block is that block.
  Uniform enough(Uniform u) const {
    if (u == Uniform::cluster && kernel_.cluster() == 1) u = Uniform::block;
    if (u == Uniform::block && kernel_.threads() <= 128) u = Uniform::group;
    if (u == Uniform::group && kernel_.threads() <= 32) u = Uniform::warp;
    return u;
  }

  void check(const Block& b, Uniform control) {
    for (const Inst& i : b) {
      if (const auto level = together(i); level && control > enough(*level)) not_together(i, *level);
      if (i.op == Op::wgmma) check_operands(i);
      if (i.op != Op::loop && i.op != Op::when) continue;
      const Uniform inner = std::max(control, level(i.src[0]));
      conditions_.push_back({&i, level(i.src[0])});
      check(i.head, inner);
      check(i.body, inner);
      check(i.otherwise, inner);
      conditions_.pop_back();
    }
  }
  [[noreturn]] void not_together(const Inst& i, Uniform level) const {
    const auto guilty = std::ranges::find_if(conditions_, [&](const Condition& c) { return c.level > enough(level); });
    refuse(
        kernel_, i,
        "must be reached by {}, but the {} at {}:{} may go differently {} (if it cannot, say so with assume_uniform)",
        threads_of(level), name(guilty->inst->op), guilty->inst->file, guilty->inst->line, difference(guilty->level));
  }
  // The matrix unit takes descriptors and the predicate once for the group.
  void check_operands(const Inst& i) const {
    for (size_t s = i.a_shared ? 0 : 4; s < i.src.size(); ++s) {
      const Uniform u = level(i.src[s]);
      if (u > enough(Uniform::group))
        refuse(kernel_, i, "source {} must be the same for {}, but may differ {}", s, threads_of(Uniform::group),
               difference(u));
    }
  }

  struct Condition {
    const Inst* inst;
    Uniform level;
  };
  const Kernel& kernel_;
  std::vector<Uniform> level_;
  std::vector<Condition> conditions_;  // around the instruction being checked, outermost first
  bool changed_ = false;
};

}  // namespace

void verify_uniformity(const Kernel& k) {
  Levels levels(k);
  levels.settle();
  levels.check();
}

}  // namespace heddle::ptx
