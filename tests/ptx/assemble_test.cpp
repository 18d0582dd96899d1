// NVIDIA's assembler as the judge of print, mnemonic and need: what need() says is enough, one less is refused, and an
// immediate may stand wherever the IR has one. About 1500 probes; see instructions/.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>

#include "base/ptxas.h"
#include "ptx/print.h"
#include "tests/ptx/cases/case.h"
#include "tests/ptx/instructions/instructions.h"

namespace heddle::ptx {
namespace {

using instructions::all_probes;
using instructions::Probe;
using instructions::Stage;

constexpr Version known_versions[] = {63, 64, 65, 70, 71, 72, 73, 74, 75, 76, 77,
                                      78, 80, 81, 82, 83, 84, 85, 86, 87, 88, 90};

struct AssembleTest : testing::Test {
  void SetUp() override {
    if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  }
};

template <class F>
void each(const Block& block, F&& fn) {
  for (const Inst& i : block) {
    fn(i);
    each(i.head, fn);
    each(i.body, fn);
    each(i.otherwise, fn);
  }
}

// What the whole kernel needs.
Need need_of(const Kernel& kernel) {
  Need all;
  each(kernel.body, [&](const Inst& i) {
    const Need n = need(i);
    all.sm = std::max(all.sm, n.sm);
    all.version = std::max(all.version, n.version);
    if (!n.only.empty()) all.only = n.only;
  });
  return all;
}

// Stores what the last instruction made, so that ptxas cannot drop it.
void keep_result(Stage& s) {
  if (s.block->empty()) return;
  const std::vector<Operand> results = s.last().dst;
  for (const Operand& r : results) {
    Operand value = r;
    if (r.type == Type::pred) value = select(Pred{&s, r}, s.constant(1u), 0u).op;
    s.append({.op = Op::store, .type = value.type, .src = {s.memory.base.op, value}, .space = Space::global}, {});
  }
}

Kernel kernel_of(std::span<const Probe> probes) {
  Stage s("probe");
  for (const Probe& p : probes) {
    p(s);
    keep_result(s);
  }
  return s.finish();
}
Kernel kernel_of(const Probe& probe) { return kernel_of(std::span(&probe, 1)); }

// The instruction a probe is about: the last before the result is stored, as it is printed.
std::string title(const Probe& probe) {
  Stage s("probe");
  probe(s);
  return mnemonic(s.last());
}

const Target& lowest(const Need& n) {
  return *std::find_if(targets().begin(), targets().end(), [&](const Target& t) { return has(t, n); });
}

std::string without_first_lines(const std::string& text) { return text.substr(text.find(".address_size")); }

std::string as(const Kernel& kernel, const Target& t, Version v) {
  return fmt::format(".version {}.{}\n.target {}\n", v / 10, v % 10, t.name) +
         without_first_lines(print(kernel, t, {.lines = false}));
}

// The probes, those with the same need together.
using Groups = std::map<std::tuple<uint32_t, Version, std::vector<std::string_view>>, std::vector<Probe>>;
const Groups& groups() {
  static const Groups all = [] {
    Groups g;
    for (const Probe& p : all_probes()) {
      const Need n = need_of(kernel_of(p));
      g[{n.sm, n.version, n.only}].push_back(p);
    }
    return g;
  }();
  return all;
}

// Which single probes of a group ptxas refuses: only asked when the group as a whole was refused.
std::string culprits(std::span<const Probe> probes, const Target& t) {
  std::string all;
  for (const Probe& p : probes) {
    const Assembled one = assemble(print(kernel_of(p), t, {.lines = false}), t.name);
    if (!one.ok) all += title(p) + "\n" + one.log.substr(0, 400) + "\n";
  }
  return all;
}

void expect_assembles(std::span<const Probe> probes, const Need& n) {
  const Kernel kernel = kernel_of(probes);
  for (const Target& t : targets()) {
    if (!has(t, n)) continue;
    const std::string text = print(kernel, t, {.lines = false});
    const Version version = std::max(t.version, n.version);
    EXPECT_TRUE(text.starts_with(fmt::format(".version {}.{}\n", version / 10, version % 10))) << text.substr(0, 20);
    EXPECT_TRUE(assemble(text, t.name).ok) << t.name << " with PTX " << version << "\n" << culprits(probes, t);
  }
}

TEST_F(AssembleTest, EveryInstructionAssemblesWhereNeedSaysItDoes) {
  constexpr size_t batch = 64;  // probes per kernel; all of a group in one kernel take ptxas twice as long
  for (const auto& [key, probes] : groups()) {
    const auto& [sm, version, only] = key;
    for (size_t i = 0; i < probes.size(); i += batch)
      expect_assembles(std::span(probes).subspan(i, std::min(batch, probes.size() - i)), {sm, version, only});
  }
}

// One kernel per distinct instruction and need that is more than the lowest.
std::map<std::string, Kernel> demanding() {
  std::map<std::string, Kernel> all;
  for (const auto& [key, probes] : groups()) {
    if (std::get<0>(key) == 75 && std::get<1>(key) == 63) continue;
    for (const Probe& p : probes)
      all.emplace(fmt::format("{} (sm_{}, PTX {})", title(p), std::get<0>(key), std::get<1>(key)), kernel_of(p));
  }
  return all;
}

TEST_F(AssembleTest, TheNextLowerTargetRefuses) {
  for (const auto& [title, kernel] : demanding()) {
    const Need n = need_of(kernel);
    if (n.sm == 75) continue;
    const Target* below = nullptr;  // the highest of a lower architecture
    for (const Target& t : targets())
      if (t.sm < n.sm && !t.specific) below = &t;
    ASSERT_TRUE(below);
    EXPECT_FALSE(assemble(as(kernel, *below, std::max(n.version, below->version)), below->name).ok)
        << title << " is said to need sm_" << n.sm << ", but assembles for " << below->name;
  }
}

TEST_F(AssembleTest, TheNextLowerVersionRefuses) {
  for (const auto& [title, kernel] : demanding()) {
    const Need n = need_of(kernel);
    const Target& t = lowest(n);
    if (n.version <= t.version) continue;  // the target itself is not older
    const auto at = std::find(std::begin(known_versions), std::end(known_versions), n.version);
    ASSERT_NE(at, std::end(known_versions)) << title;
    const Version below = *std::prev(at);
    EXPECT_FALSE(assemble(as(kernel, t, below), t.name).ok)
        << title << " is said to need PTX " << n.version << ", but assembles with " << below;
  }
}

TEST_F(AssembleTest, OthersRefuseWhatOnlySomeTargetsHave) {
  std::set<std::string> seen;
  for (const auto& [title, kernel] : demanding()) {
    const Need n = need_of(kernel);
    if (n.only.empty() || !seen.insert(title.substr(0, title.find('.', title.find("aligned")))).second) continue;
    for (const Target& t : targets()) {
      if (has(t, n)) continue;
      EXPECT_FALSE(assemble(as(kernel, t, std::max(n.version, t.version)), t.name).ok) << title << " on " << t.name;
    }
  }
  EXPECT_GE(seen.size(), 5u);
}

bool takes_address(Op op) {
  return (op >= Op::load && op <= Op::prefetch) || (op >= Op::cp_async && op <= Op::stmatrix);
}

// ptxas knows that bulk copies are multiples of 16 bytes and that a parity is 0 or 1.
uint64_t allowed(Op op) { return op >= Op::bulk_load && op <= Op::bulk_shared ? 16 : 1; }

// Each source register of each instruction replaced by a constant, one at a time and all at once. Not the address in
// the first: no builder call makes a constant address, and some crash ptxas 13.0.
void with_constants(Block& out, const Block& block) {
  for (const Inst& original : block) {
    if (original.op == Op::when || original.op == Op::loop) continue;
    Inst all = original;
    for (size_t n = takes_address(original.op) ? 1 : 0; n < original.src.size(); ++n) {
      if (original.src[n].kind != Operand::Kind::reg) continue;
      Inst one = original;
      one.src[n] = all.src[n] =
          Operand{.kind = Operand::Kind::imm, .type = original.src[n].type, .bits = allowed(original.op)};
      out.push_back(std::move(one));
    }
    out.push_back(std::move(all));
  }
}

TEST_F(AssembleTest, AnyOperandMayBeAConstant) {
  for (const auto& [key, probes] : groups()) {
    const auto& [sm, version, only] = key;
    const Need need{sm, version, only};
    const Target& t = lowest(need);
    const auto constants_of = [](std::span<const Probe> some) {
      Stage s("probe");
      const size_t stage = s.kernel.body.size();
      for (const Probe& p : some) p(s);
      Block plain(s.kernel.body.begin() + ptrdiff_t(stage), s.kernel.body.end());
      with_constants(s.kernel.body, plain);
      return s.finish();
    };
    if (assemble(print(constants_of(probes), t, {.lines = false}), t.name).ok) continue;
    for (const Probe& p : probes) {
      const Assembled one = assemble(print(constants_of(std::span(&p, 1)), t, {.lines = false}), t.name);
      EXPECT_TRUE(one.ok) << title(p) << " with constants, " << t.name << "\n" << one.log.substr(0, 400);
    }
  }
}

void replace_all(std::string& text, std::string_view from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// The cases that the interpreter and the GPU run, each where it can run first: all those with the same target and
// version as one module, because starting ptxas takes longer than assembling a case. The long ones (wgmma, about
// 1000 lines) take 0.2 to 2 seconds each and differ in layout only, so every eighth must do; the probes above have
// every shape, and the GPU program loads all of them.
TEST_F(AssembleTest, EveryCaseAssembles) {
  std::map<std::string, std::string> modules;  // the first two lines of a text -> the texts without them
  const std::vector<cases::Case>& all = cases::all_cases();
  size_t long_ones = 0;
  for (size_t n = 0; n < all.size(); ++n) {
    Kernel kernel = all[n].build();
    if (kernel.body.size() > 400 && long_ones++ % 8) continue;
    kernel.name = fmt::format("case_{}", n);
    Need needs = need_of(kernel);
    if (kernel.cluster() > 1) needs.sm = std::max(needs.sm, 90u);
    std::string text = print(kernel, lowest(needs), {.lines = false});
    replace_all(text, "smem", fmt::format("smem_{}", n));
    replace_all(text, "constants", fmt::format("constants_{}", n));
    const size_t head = text.find(".address_size");
    modules[text.substr(0, head)] +=
        fmt::format("// {} {}\n", all[n].family, all[n].name) + text.substr(text.find('\n', head));
  }
  for (const auto& [head, text] : modules) {
    const size_t at = head.find("sm_");
    const std::string on = head.substr(at, head.find('\n', at) - at);
    const Assembled a = assemble(head + ".address_size 64\n" + text, on);
    EXPECT_TRUE(a.ok) << head << a.log.substr(0, 4000);
  }
}

TEST(InstructionsTest, EveryOpIsProbed) {
  std::set<Op> seen;
  for (const Probe& p : all_probes()) each(kernel_of(p).body, [&](const Inst& i) { seen.insert(i.op); });
  for (int op = 0; op <= int(Op::trap); ++op) EXPECT_TRUE(seen.contains(Op(op))) << name(Op(op));
}

}  // namespace
}  // namespace heddle::ptx
