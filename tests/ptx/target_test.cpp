// NVIDIA's assembler as the judge of print, mnemonic and need: what need() says is enough, one less is refused, and an
// immediate may stand wherever the IR has one. About 1500 probes; see instructions/.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>

#include "ptx/print.h"
#include "tests/base/fake_ptxas.h"
#include "tests/ptx/assemble_all.h"
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

// A kernel of its own for each answer that ptxas can give: accepted, refused, accepted with spills.
TEST_F(AssembleTest, OneRunAnswersForEveryKernelAsIfAlone) {
  const std::string head = ".version 7.0\n.target sm_80\n.address_size 64\n";
  const std::string begin = ".visible .entry k(.param .u64 p)\n", load = ".reg .b64 %d<2>;\nld.param.u64 %d1, [p];\n";
  const std::string plain =
      head + ".shared .b8 smem[64];\n" + begin + "{\n" + load + "st.global.u64 [%d1], smem;\nret;\n}\n";
  const std::string wrong = head + begin + "{\n" + load + "st.global.u32 [%d1], %nothing;\nret;\n}\n";
  std::string spills = head + begin + ".maxnreg 24\n{\n.reg .b32 %r<65>;\n" + load;
  for (int i = 1; i <= 64; ++i) spills += fmt::format("ld.volatile.global.u32 %r{}, [%d1 + {}];\n", i, 4 * i);
  for (int i = 64; i >= 1; --i) spills += fmt::format("st.volatile.global.u32 [%d1 + {}], %r{};\n", 4 * i, i);
  spills += "ret;\n}\n";
  const std::string newer = ".version 8.0" + spills.substr(spills.find('\n'));

  const std::vector<std::string> texts{plain, wrong, spills, wrong, newer, plain};
  const std::vector<Assembled> together = assemble_all(texts, "sm_80");
  ASSERT_EQ(together.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const Assembled alone = assemble(texts[i], "sm_80");
    EXPECT_EQ(together[i].ok, alone.ok) << i << "\n" << together[i].log;
    EXPECT_EQ(together[i].registers, alone.registers) << i;
    EXPECT_EQ(together[i].spill_bytes, alone.spill_bytes) << i;
    EXPECT_EQ(together[i].log.find("nothing") != std::string::npos, texts[i] == wrong) << i << "\n" << together[i].log;
  }
  EXPECT_GT(together[2].spill_bytes, 0u);
  EXPECT_TRUE(assemble_all({}, "sm_80").empty());
}

// A ptxas that crashes on a kernel with "bad" in it, without naming a line: the kernels are then tried one by one.
TEST_F(FakePtxas, AFailureWithoutALineIsTriedOneByOne) {
  install("for last; do :; done; if grep -q bad \"$last\"; then exit 139; fi; echo 'Used 8 registers'\n");
  const auto kernel = [](const char* body) {
    return fmt::format(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{{\n{}\n}}\n", body);
  };
  const std::vector<Assembled> all = assemble_all({kernel("ret;"), kernel("bad;"), kernel("ret;")}, "sm_80");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[0].ok);
  EXPECT_FALSE(all[1].ok);
  EXPECT_TRUE(all[2].ok);
  EXPECT_EQ(all[2].registers, 8u);
}

// A text for ptxas, and what to call it when the answer is wrong.
struct Question {
  std::string title, text;
};
using Questions = std::map<std::string, std::vector<Question>>;  // by target

// Hands every question with its answer to `check(question, answer, target)`, one run of ptxas per target and version.
template <class F>
void ask(const Questions& questions, F&& check) {
  for (const auto& [target, of_target] : questions) {
    std::vector<std::string> texts;
    for (const Question& q : of_target) texts.push_back(q.text);
    const std::vector<Assembled> answers = assemble_all(texts, target);
    for (size_t i = 0; i < answers.size(); ++i) check(of_target[i], answers[i], target);
  }
}

void expect_refused(const Questions& questions) {
  ask(questions, [](const Question& q, const Assembled& a, const std::string& target) {
    EXPECT_FALSE(a.ok) << q.title << ", but it assembles for " << target;
  });
}

// Probes that are printed as one kernel: a failure of several is asked again probe by probe.
struct ProbeKernel {
  std::span<const Probe> probes;
  const Target* target;
  Kernel (*build)(std::span<const Probe>);

  std::string text() const { return print(build(probes), *target, {.lines = false}); }
};

void expect_assemble(const std::vector<ProbeKernel>& kernels) {
  std::map<const Target*, std::vector<const ProbeKernel*>> by_target;
  for (const ProbeKernel& k : kernels) by_target[k.target].push_back(&k);
  std::vector<ProbeKernel> single;
  for (const auto& [t, of_target] : by_target) {
    std::vector<std::string> texts;
    for (const ProbeKernel* k : of_target) texts.push_back(k->text());
    const std::vector<Assembled> answers = assemble_all(texts, t->name);
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].ok) continue;
      const ProbeKernel& k = *of_target[i];
      if (k.probes.size() == 1) {
        ADD_FAILURE() << title(k.probes[0]) << " for " << t->name << "\n" << answers[i].log.substr(0, 400);
        continue;
      }
      for (const Probe& p : k.probes) single.push_back({std::span(&p, 1), t, k.build});
      ADD_FAILURE() << k.probes.size() << " probes from " << title(k.probes[0]) << " on do not assemble for " << t->name
                    << "\n"
                    << answers[i].log.substr(0, 400);
    }
  }
  if (!single.empty()) expect_assemble(single);
}

TEST_F(AssembleTest, EveryInstructionAssemblesWhereNeedSaysItDoes) {
  constexpr size_t batch = 64;  // probes per kernel; all of a group in one kernel take ptxas twice as long
  std::vector<ProbeKernel> kernels;
  for (const auto& [key, probes] : groups()) {
    const auto& [sm, version, only] = key;
    for (const Target& t : targets()) {
      if (!has(t, {sm, version, only})) continue;
      for (size_t i = 0; i < probes.size(); i += batch) {
        kernels.push_back({std::span(probes).subspan(i, std::min(batch, probes.size() - i)), &t, kernel_of});
        const std::string text = kernels.back().text();
        const Version printed = std::max(t.version, version);
        EXPECT_TRUE(text.starts_with(fmt::format(".version {}.{}\n", printed / 10, printed % 10)))
            << text.substr(0, 20);
      }
    }
  }
  expect_assemble(kernels);
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
  Questions questions;
  for (const auto& [title, kernel] : demanding()) {
    const Need n = need_of(kernel);
    if (n.sm == 75) continue;
    const Target* below = nullptr;  // the highest of a lower architecture
    for (const Target& t : targets())
      if (t.sm < n.sm && !t.specific) below = &t;
    ASSERT_TRUE(below);
    questions[below->name].push_back({fmt::format("need() says sm_{} for {}", n.sm, title),
                                      as(kernel, *below, std::max(n.version, below->version))});
  }
  expect_refused(questions);
}

TEST_F(AssembleTest, TheNextLowerVersionRefuses) {
  Questions questions;
  for (const auto& [title, kernel] : demanding()) {
    const Need n = need_of(kernel);
    const Target& t = lowest(n);
    if (n.version <= t.version) continue;  // the target itself is not older
    const auto at = std::find(std::begin(known_versions), std::end(known_versions), n.version);
    ASSERT_NE(at, std::end(known_versions)) << title;
    const Version below = *std::prev(at);
    questions[t.name].push_back(
        {fmt::format("need() says PTX {} for {}, asked with {}", n.version, title, below), as(kernel, t, below)});
  }
  expect_refused(questions);
}

TEST_F(AssembleTest, OthersRefuseWhatOnlySomeTargetsHave) {
  Questions questions;
  std::set<std::string> seen;
  for (const auto& [title, kernel] : demanding()) {
    const Need n = need_of(kernel);
    if (n.only.empty() || !seen.insert(title.substr(0, title.find('.', title.find("aligned")))).second) continue;
    for (const Target& t : targets())
      if (!has(t, n))
        questions[t.name].push_back(
            {title + " is for some targets only", as(kernel, t, std::max(n.version, t.version))});
  }
  EXPECT_GE(seen.size(), 5u);
  expect_refused(questions);
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

Kernel kernel_with_constants(std::span<const Probe> probes) {
  Stage s("probe");
  const size_t stage = s.kernel.body.size();
  for (const Probe& p : probes) p(s);
  Block plain(s.kernel.body.begin() + ptrdiff_t(stage), s.kernel.body.end());
  with_constants(s.kernel.body, plain);
  return s.finish();
}

TEST_F(AssembleTest, AnyOperandMayBeAConstant) {
  std::vector<ProbeKernel> kernels;
  for (const auto& [key, probes] : groups()) {
    const auto& [sm, version, only] = key;
    kernels.push_back({probes, &lowest({sm, version, only}), kernel_with_constants});
  }
  expect_assemble(kernels);
}

// The cases that the interpreter and the GPU run, each for the lowest target that has its instructions. The long ones
// (wgmma, about 1000 lines) take 0.2 to 2 seconds each and differ in layout only, so every eighth must do; the probes
// above have every shape, and the GPU program loads all of them.
TEST_F(AssembleTest, EveryCaseAssembles) {
  Questions questions;
  size_t long_ones = 0;
  for (const cases::Case& c : cases::all_cases()) {
    const Kernel kernel = c.build();
    if (kernel.body.size() > 400 && long_ones++ % 8) continue;
    Need needs = need_of(kernel);
    if (kernel.cluster() > 1) needs.sm = std::max(needs.sm, 90u);
    const Target& t = lowest(needs);
    questions[t.name].push_back({c.family + " " + c.name, print(kernel, t, {.lines = false})});
  }
  ask(questions, [](const Question& q, const Assembled& a, const std::string& target) {
    EXPECT_TRUE(a.ok) << q.title << " for " << target << "\n" << a.log.substr(0, 400);
  });
}

TEST(InstructionsTest, EveryOpIsProbed) {
  std::set<Op> seen;
  for (const Probe& p : all_probes()) each(kernel_of(p).body, [&](const Inst& i) { seen.insert(i.op); });
  for (int op = 0; op <= int(Op::trap); ++op) EXPECT_TRUE(seen.contains(Op(op))) << name(Op(op));
}

}  // namespace
}  // namespace heddle::ptx
