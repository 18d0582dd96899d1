// Kernel -> steps. Rows are shared between registers whose lives do not overlap, so that many blocks fit in the cache.
#include <algorithm>
#include <map>

#include "ptx/machine/cta.h"
#include "ptx/machine/wgmma.h"

namespace heddle::ptx::machine {
namespace {

uint32_t row_bytes(Type t) { return 32 * (t == Type::pred ? 4 : register_bytes(t)); }

// First and last position at which each register is needed, in the order of the text. A register that was written
// before a loop and is used in it lives until the loop ends.
class Lives {
 public:
  struct Life {
    uint32_t first = ~0u, last = 0;
  };
  explicit Lives(const Kernel& k) : life(k.regs.size()) { block(k.body); }
  std::vector<Life> life;

 private:
  void touch(const Operand& o) {
    if (o.kind != Operand::Kind::reg) return;
    Life& l = life.at(o.reg);
    if (l.first == ~0u) l.first = at_;
    l.last = std::max(l.last, at_);
    for (auto& loop : loops_)
      if (l.first < loop.begin) loop.outer.push_back(o.reg);
  }
  void block(const ptx::Block& code) {
    for (auto& i : code) {
      ++at_;
      if (i.op == Op::loop) {
        loops_.push_back({at_, {}});
        block(i.head);
        for (auto& s : i.src) touch(s);
        block(i.body);
        ++at_;
        auto outer = std::move(loops_.back().outer);
        loops_.pop_back();
        for (uint32_t r : outer) life[r].last = std::max(life[r].last, at_);
        for (auto& s : i.src) touch(s);  // the head runs again after the body
        continue;
      }
      for (auto& s : i.src) touch(s);
      for (auto& d : i.dst) touch(d);
      block(i.body);
      block(i.otherwise);
    }
  }
  struct Loop {
    uint32_t begin;
    std::vector<uint32_t> outer;
  };
  uint32_t at_ = 0;
  std::vector<Loop> loops_;
};

class Lowering {
 public:
  explicit Lowering(Program& p)
      : p_(p), k_(p.kernel), rows_(p.kernel.regs.size(), 0), wgmma_(p.kernel.regs.size(), false) {
    for (uint32_t r : registers_of_wgmma(k_)) wgmma_[r] = true;
    assign_rows();
    block(k_.body);
    uint32_t* at = pool_.data();
    for (auto& [step, n_dst, n_src] : operands_) {
      p_.steps[step].dst = at;
      p_.steps[step].src = at + n_dst;
      at += n_dst + n_src;
    }
    p_.file_bytes = bytes_;
  }
  std::vector<uint32_t> take_pool() { return std::move(pool_); }

 private:
  void assign_rows() {
    Lives lives(k_);
    std::vector<uint32_t> order;
    for (uint32_t r = 0; r < k_.regs.size(); ++r)
      if (lives.life[r].first != ~0u) order.push_back(r);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return lives.life[a].first < lives.life[b].first; });
    std::map<uint32_t, std::vector<uint32_t>> free;  // row size -> rows
    std::multimap<uint32_t, uint32_t> ends;          // last position -> register
    for (uint32_t r : order) {
      while (!ends.empty() && ends.begin()->first < lives.life[r].first) {
        uint32_t dead = ends.begin()->second;
        free[row_bytes(k_.regs[dead])].push_back(rows_[dead]);
        ends.erase(ends.begin());
      }
      uint32_t size = row_bytes(k_.regs[r]);
      auto& list = free[size];
      if (list.empty()) {
        rows_[r] = bytes_;
        bytes_ += size;
      } else {
        rows_[r] = list.back();
        list.pop_back();
      }
      if (!wgmma_[r]) ends.emplace(lives.life[r].last, r);  // the matrix unit may still hold it: a row of its own
    }
  }

  uint32_t row(const Operand& o) {
    switch (o.kind) {
      case Operand::Kind::reg:
        return rows_.at(o.reg);
      case Operand::Kind::imm:
        return immediate_row(o);
      case Operand::Kind::special: {
        for (auto& [s, row] : p_.specials)
          if (s == o.special) return row;
        p_.specials.emplace_back(o.special, bytes_);
        bytes_ += 32 * 8;
        return p_.specials.back().second;
      }
      case Operand::Kind::none:
        break;
    }
    return 0;
  }
  uint32_t immediate_row(const Operand& o) {
    uint32_t size = o.type == Type::pred ? 4 : register_bytes(o.type);
    uint64_t bits = o.bits;
    // An 8-bit immediate stands for its widened value.
    if (o.type == Type::s8) bits = uint32_t(int32_t(int8_t(bits)));
    auto [it, fresh] = immediates_.try_emplace({size, bits}, uint32_t(p_.constants.size()));
    if (fresh) {
      p_.constants.resize(p_.constants.size() + size_t(32) * size);
      for (uint32_t i = 0; i < 32; ++i) std::memcpy(p_.constants.data() + it->second + i * size, &bits, size);
    }
    return it->second | constant_row;
  }

  void step(const Inst& i, Exec exec, Control control = Control::none) {
    operands_.push_back({p_.steps.size(), i.dst.size(), i.src.size()});
    for (auto& d : i.dst) pool_.push_back(row(d));
    for (auto& s : i.src) pool_.push_back(row(s));
    p_.steps.push_back({.exec = exec, .inst = &i, .control = control});
  }
  uint32_t here() const { return uint32_t(p_.steps.size()); }

  void block(const ptx::Block& code) {
    for (auto& i : code) {
      if (i.op == Op::when) {
        uint32_t test = here();
        step(i, nullptr, Control::when);
        block(i.body);
        uint32_t other = here();
        step(i, nullptr, Control::otherwise);
        block(i.otherwise);
        uint32_t end = here();
        step(i, nullptr, Control::end_when);
        p_.steps[test].target = other;
        p_.steps[other].target = end;
      } else if (i.op == Op::loop) {
        step(i, nullptr, Control::loop);
        uint32_t head = here();
        block(i.head);
        uint32_t test = here();
        step(i, nullptr, Control::test);
        block(i.body);
        step(i, nullptr, Control::again);
        p_.steps.back().target = head;
        p_.steps[test].target = here();
        step(i, nullptr, Control::end);
      } else {
        if (touches_wgmma(i)) step(i, check_wgmma_access);
        step(i, exec_of(i));
      }
    }
  }
  bool touches_wgmma(const Inst& i) const {
    if (i.op == Op::wgmma) return false;
    auto of = [&](const Operand& o) { return o.kind == Operand::Kind::reg && wgmma_.at(o.reg); };
    return std::any_of(i.src.begin(), i.src.end(), of) || std::any_of(i.dst.begin(), i.dst.end(), of);
  }
  Exec exec_of(const Inst& i) const {
    for (auto family :
         {across, arithmetic, conversion, memory, async, matrix})  // across first: clocks are no plain mov
      if (Exec e = family(i)) return e;
    throw Error("{}: {}:{}: the interpreter has no {} on {}", k_.name, i.file, i.line, name(i.op), name(i.type));
  }

  struct Operands {
    size_t step, n_dst, n_src;
  };
  Program& p_;
  const Kernel& k_;
  std::vector<uint32_t> rows_;
  std::vector<bool> wgmma_;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> immediates_;
  std::vector<uint32_t> pool_;
  std::vector<Operands> operands_;
  uint32_t bytes_ = 0;
};

}  // namespace

Program::Program(const Kernel& k) : kernel(k) {
  Lowering lowering(*this);
  pool = lowering.take_pool();  // moving a vector keeps its storage, so the steps' pointers stay good
}

}  // namespace heddle::ptx::machine
