// The text of small kernels, by value.
#include "ptx/print.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "ptx/builder.h"

namespace heddle::ptx {
namespace {

struct NoArgs {};

std::string printed(const Kernel& kernel, const char* on = "sm_75") {
  return print(kernel, target(on), {.lines = false});
}

// The lines between the register declarations and `ret`.
std::string body(const std::string& text) {
  size_t begin = text.find("{\n") + 2;
  while (text.compare(begin, 7, "  .reg ") == 0) begin = text.find('\n', begin) + 1;
  return text.substr(begin, text.rfind("  ret;\n") - begin);
}
std::string body_of(auto&& build, const char* on = "sm_75") {
  Builder<NoArgs> k("k", 32);
  build(k);
  return body(printed(k.finish(), on));
}

struct AxpyArgs {
  DevicePtr<float> x, y;
  float a;
  uint32_t n;
};

Kernel axpy() {
  Builder<AxpyArgs> k("axpy", 128);
  auto x = k.arg(&AxpyArgs::x), y = k.arg(&AxpyArgs::y);
  auto a = k.arg(&AxpyArgs::a);
  auto n = k.arg(&AxpyArgs::n);
  // one call after the other: compilers differ in which operand they evaluate first
  U32 block = k.block_id(), first = block * 128u, i = first + k.thread();
  k.when(i < n, [&] {
    auto to = y + i;
    F32 old_x = load(x + i), old_y = load(y + i);
    store(to, fma(old_x, a, old_y) + 1.5f);
  });
  return k.finish();
}

TEST(Print, AWholeKernel) {
  EXPECT_EQ(printed(axpy()),
            ".version 6.3\n"
            ".target sm_75\n"
            ".address_size 64\n"
            "\n"
            ".visible .entry axpy(.param .align 8 .b8 args[24])\n"
            ".reqntid 128, 1, 1\n"
            "{\n"
            "  .reg .pred %p<1>;\n"
            "  .reg .b32 %r<5>;\n"
            "  .reg .f32 %f<5>;\n"
            "  .reg .b64 %d<5>;\n"
            "  ld.param.u64 %d0, [args];\n"
            "  ld.param.u64 %d1, [args+8];\n"
            "  ld.param.f32 %f0, [args+16];\n"
            "  ld.param.u32 %r0, [args+20];\n"
            "  mov.u32 %r1, %ctaid.x;\n"
            "  mul.lo.u32 %r2, %r1, 128;\n"
            "  mov.u32 %r3, %tid.x;\n"
            "  add.u32 %r4, %r2, %r3;\n"
            "  setp.lt.u32 %p0, %r4, %r0;\n"
            "  @!%p0 bra $L0;\n"
            "  mad.wide.u32 %d2, %r4, 4, %d1;\n"
            "  mad.wide.u32 %d3, %r4, 4, %d0;\n"
            "  ld.global.f32 %f1, [%d3];\n"
            "  mad.wide.u32 %d4, %r4, 4, %d1;\n"
            "  ld.global.f32 %f2, [%d4];\n"
            "  fma.rn.f32 %f3, %f1, %f0, %f2;\n"
            "  add.rn.f32 %f4, %f3, 0f3FC00000;\n"
            "  st.global.f32 [%d2], %f4;\n"
            "$L0:\n"
            "  ret;\n"
            "}\n");
}

TEST(Print, LinesPointToTheSourceAndAreNotRepeated) {
  Builder<NoArgs> k("k", 32);
  const uint32_t here = __LINE__ + 1;
  U32 thread = k.thread(), t = thread + k.lane();
  k.append({.op = Op::mov, .type = Type::u32, .dst = {k.reg(Type::u32)}, .src = {t.op}}, Loc{"caf\xc3\xa9 \"x\".h", 7});
  const std::string text = print(k.finish(), target("sm_75"));
  EXPECT_NE(text.find(fmt::format(".file 1 \"{}\"\n.file 2 \"caf?? ?x?.h\"\n", __FILE__)), std::string::npos) << text;
  EXPECT_EQ(body(text), fmt::format("  .loc 1 {} 0\n"
                                    "  mov.u32 %r0, %tid.x;\n"
                                    "  mov.u32 %r1, %laneid;\n"
                                    "  add.u32 %r2, %r0, %r1;\n"
                                    "  .loc 2 7 0\n"
                                    "  mov.u32 %r3, %r2;\n",
                                    here));
  for (char c : text) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c <= 0x7e));
}

TEST(Print, BranchesAndLoops) {
  EXPECT_EQ(body_of([](auto& k) {
              Pred p = k.constant(true);
              k.when_else(
                  p, [&] { k.barrier(); }, [&] { k.trap(); });
            }),
            "  mov.pred %p0, 1;\n"
            "  @!%p0 bra $L0;\n"
            "  bar.sync 0;\n"
            "  bra.uni $L1;\n"
            "$L0:\n"
            "  trap;\n"
            "$L1:\n");
  EXPECT_EQ(body_of([](auto& k) { k.loop(0u, 4u, 1u, [&](U32 i) { k.nanosleep(i); }); }),
            "  mov.u32 %r0, 0;\n"
            "  mov.u32 %r1, %r0;\n"
            "$L0:\n"
            "  mov.u32 %r2, %r1;\n"
            "  setp.lt.u32 %p0, %r2, 4;\n"
            "  @!%p0 bra $L1;\n"
            "  mov.u32 %r3, %r1;\n"
            "  nanosleep.u32 %r3;\n"
            "  add.u32 %r1, %r1, 1;\n"
            "  bra.uni $L0;\n"
            "$L1:\n");
}

TEST(Print, WhereThreadsAre) {
  EXPECT_EQ(body_of(
                [](auto& k) {
                  k.warp();
                  k.group();
                  k.clock();
                  k.cluster_rank();
                },
                "sm_90"),
            "  mov.u32 %r0, %tid.x;\n"
            "  shr.u32 %r0, %r0, 5;\n"
            "  mov.u32 %r1, %tid.x;\n"
            "  shr.u32 %r1, %r1, 7;\n"
            "  mov.u64 %d0, %clock64;\n"
            "  mov.u32 %r2, %cluster_ctarank;\n");
}

TEST(Print, Constants) {
  EXPECT_EQ(body_of([](auto& k) {
              k.constant(-5);
              k.constant(uint32_t(0x10000));
              k.constant(int64_t(INT64_MIN));
              k.constant(uint16_t(65535));
              k.constant(-0.0f);
              k.constant(1.0);
              k.constant(f16{0x3C00});
              k.constant(bf16x2{0x3F803F80});
              k.constant(false);
            }),
            "  mov.s32 %r0, -5;\n"
            "  mov.u32 %r1, 0x10000;\n"
            "  mov.s64 %d0, -9223372036854775808;\n"
            "  mov.u16 %h0, 65535;\n"
            "  mov.f32 %f0, 0f80000000;\n"
            "  mov.f64 %fd0, 0d3FF0000000000000;\n"
            "  mov.b16 %h1, 0x3C00;\n"
            "  mov.b32 %r2, 0x3F803F80;\n"
            "  mov.pred %p0, 0;\n");
}

// PTX has no 16-bit or packed literals in arithmetic: they come through registers of the printer's own.
TEST(Print, ConstantsThatNeedARegister) {
  Builder<NoArgs> k("k", 32);
  F16 h = k.constant(f16{0x4000});
  fma(h, f16{0x3C00}, f16{0x3800});
  min(h, f16{0x3C00});
  const std::string text = printed(k.finish(), "sm_80");
  EXPECT_EQ(body(text),
            "  mov.b16 %h0, 0x4000;\n"
            "  mov.b16 %th0, 0x3C00;\n"
            "  mov.b16 %th1, 0x3800;\n"
            "  fma.rn.f16 %h1, %h0, %th0, %th1;\n"
            "  mov.b16 %th0, 0x3C00;\n"
            "  min.f16 %h2, %h0, %th0;\n");
  EXPECT_NE(text.find("  .reg .b16 %h<3>;\n  .reg .b16 %th<2>;\n"), std::string::npos) << text;
}

TEST(Print, PredicatesAreSelectedWithLogic) {
  EXPECT_EQ(body_of([](auto& k) {
              Pred p = k.constant(true), q = k.constant(false);
              select(p, q, true);
            }),
            "  mov.pred %p0, 1;\n"
            "  mov.pred %p1, 0;\n"
            "  mov.pred %tp0, 1;\n"
            "  and.pred %tp1, %p0, %p1;\n"
            "  not.pred %tp2, %p0;\n"
            "  and.pred %tp2, %tp2, %tp0;\n"
            "  or.pred %p2, %tp1, %tp2;\n");
}

struct PointerArgs {
  DevicePtr<float> p;
};

TEST(Print, Addresses) {
  Builder<PointerArgs> k("k", 32);
  auto p = k.arg(&PointerArgs::p);
  load(p.offset(-1));
  load(p.offset(int64_t(1) << 30));
  load_vec<4>(p, {.nc = true, .l1 = L1::no_allocate, .l2_prefetch = 128});
  store(p.as<uint8_t>(), 7u, {.policy = k.cache_policy(L2::evict_first)});
  EXPECT_EQ(body(printed(k.finish(), "sm_80")),
            "  ld.param.u64 %d0, [args];\n"
            "  ld.global.f32 %f0, [%d0+-4];\n"
            "  add.u64 %td0, %d0, 4294967296;\n"
            "  ld.global.f32 %f1, [%td0];\n"
            "  ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%f2, %f3, %f4, %f5}, [%d0];\n"
            "  createpolicy.fractional.L2::evict_first.b64 %d1;\n"
            "  st.global.L2::cache_hint.u8 [%d0], 7, %d1;\n");
}

TEST(Print, MemoryOfTheKernel) {
  const auto declared = [](auto&& build) {
    Builder<NoArgs> k("k", 32);
    build(k);
    const std::string text = printed(k.finish());
    const size_t begin = text.find(".address_size 64\n") + 17;
    return text.substr(begin, text.find("\n.visible") - begin) + body(text);
  };
  EXPECT_EQ(declared([](auto& k) {
              k.template shared<float>(3);
              k.template shared<uint8_t>(5, 128);
            }),
            ".shared .align 128 .b8 smem[133];\n"
            "  mov.u32 %r0, smem;\n"
            "  mov.u32 %r1, smem+128;\n");
  // above 48 KB, or with memory that the launch sizes, all of it is requested at launch
  EXPECT_EQ(declared([](auto& k) { k.template shared<uint8_t>(48 * 1024); }),
            ".shared .align 16 .b8 smem[49152];\n  mov.u32 %r0, smem;\n");
  EXPECT_EQ(declared([](auto& k) { k.template shared<uint8_t>(48 * 1024 + 1); }),
            ".extern .shared .align 16 .b8 smem[];\n  mov.u32 %r0, smem;\n");
  EXPECT_EQ(declared([](auto& k) {
              k.template shared<uint8_t>(5);
              k.template dynamic_shared<float>();
            }),
            ".extern .shared .align 16 .b8 smem[];\n"
            "  mov.u32 %r0, smem;\n"
            "  mov.u32 %r1, smem+16;\n");
  EXPECT_EQ(declared([](auto& k) {
              k.constants(std::vector<uint16_t>{1, 0x203});
              k.constants(std::vector<uint8_t>{9});
            }),
            ".const .align 16 .b8 constants[17] = {1,0,3,2,0,0,0,0,0,0,0,0,0,0,0,0,9};\n"
            "  mov.u64 %d0, constants;\n"
            "  mov.u64 %d1, constants+16;\n");
  EXPECT_EQ(declared([](auto& k) {
              k.template shared<float>(0);
              k.constants(std::vector<float>{});
            }),
            "  mov.u32 %r0, 0;\n  mov.u64 %d0, 0;\n");
}

// Every directive comes from one field of the kernel: changing the field changes that line and nothing else.
TEST(Print, Directives) {
  const auto entry = [](auto&& change) {
    Kernel k;
    k.name = "k";
    k.threads_x = 64;
    change(k);
    const std::string text = print(k, target("sm_90"));
    return text.substr(text.find(".visible"), text.find("{\n") - text.find(".visible"));
  };
  EXPECT_EQ(entry([](Kernel&) {}), ".visible .entry k()\n.reqntid 64, 1, 1\n");
  EXPECT_EQ(entry([](Kernel& k) { k.name = "other"; }), ".visible .entry other()\n.reqntid 64, 1, 1\n");
  EXPECT_EQ(entry([](Kernel& k) { k.args_bytes = 12; }),
            ".visible .entry k(.param .align 8 .b8 args[12])\n.reqntid 64, 1, 1\n");
  EXPECT_EQ(entry([](Kernel& k) {
              k.args_bytes = 128;
              k.args_align = 64;
            }),
            ".visible .entry k(.param .align 64 .b8 args[128])\n.reqntid 64, 1, 1\n");
  EXPECT_EQ(entry([](Kernel& k) {
              k.threads_x = 32;
              k.threads_y = 2;
              k.threads_z = 3;
            }),
            ".visible .entry k()\n.reqntid 32, 2, 3\n");
  EXPECT_EQ(entry([](Kernel& k) { k.min_blocks = 2; }), ".visible .entry k()\n.reqntid 64, 1, 1\n.minnctapersm 2\n");
  EXPECT_EQ(entry([](Kernel& k) { k.max_registers = 168; }), ".visible .entry k()\n.reqntid 64, 1, 1\n.maxnreg 168\n");
  EXPECT_EQ(entry([](Kernel& k) {
              k.cluster_x = 2;
              k.cluster_y = 4;
            }),
            ".visible .entry k()\n.reqntid 64, 1, 1\n.reqnctapercluster 2, 4, 1\n");
}

TEST(Print, TheLowestVersionThatTargetAndInstructionsNeed) {
  const auto version = [](auto&& build, const char* on) {
    Builder<NoArgs> k("k", 32);
    build(k);
    const std::string text = printed(k.finish(), on);
    return text.substr(0, text.find(".address_size"));
  };
  const auto nothing = [](auto&) {};
  EXPECT_EQ(version(nothing, "sm_75"), ".version 6.3\n.target sm_75\n");
  EXPECT_EQ(version(nothing, "sm_80"), ".version 7.0\n.target sm_80\n");
  EXPECT_EQ(version(nothing, "sm_90a"), ".version 8.0\n.target sm_90a\n");
  EXPECT_EQ(version(nothing, "sm_120"), ".version 8.7\n.target sm_120\n");
  EXPECT_EQ(version([](auto& k) { tanh_approx(k.constant(1.0f)); }, "sm_75"), ".version 7.0\n.target sm_75\n");
  EXPECT_EQ(version([](auto& k) { k.elect_one(); }, "sm_90"), ".version 8.0\n.target sm_90\n");
  EXPECT_EQ(version([](auto& k) { k.elect_one(); }, "sm_100"), ".version 8.6\n.target sm_100\n");
  // an instruction counts wherever it stands
  EXPECT_EQ(version([](auto& k) { k.when(k.constant(true), [&] { k.cache_policy(L2::evict_last); }); }, "sm_80"),
            ".version 7.4\n.target sm_80\n");
  EXPECT_EQ(version(
                [](auto& k) {
                  k.when_else(
                      k.constant(true), [] {}, [&] { k.cache_policy(L2::evict_last); });
                },
                "sm_80"),
            ".version 7.4\n.target sm_80\n");
  EXPECT_EQ(version(
                [](auto& k) {
                  k.loop_while(
                      [&] {
                        k.cache_policy(L2::evict_last);
                        return k.constant(true);
                      },
                      [] {});
                },
                "sm_80"),
            ".version 7.4\n.target sm_80\n");
}

TEST(Print, MatrixUnits) {
  EXPECT_EQ(
      body_of(
          [](auto& k) {
            GroupAcc<float, 8> d(k);
            U64 a = k.constant(uint64_t(1)), b = k.constant(uint64_t(2));
            wgmma<bf16>(d, a, b, true, {.transpose_b = true, .negate_a = true});
          },
          "sm_90a"),
      "  mov.f32 %f0, 0f00000000;\n"
      "  mov.f32 %f1, 0f00000000;\n"
      "  mov.f32 %f2, 0f00000000;\n"
      "  mov.f32 %f3, 0f00000000;\n"
      "  mov.u64 %d0, 1;\n"
      "  mov.u64 %d1, 2;\n"
      "  mov.pred %tp0, 1;\n"
      "  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d1, %tp0, -1, 1, 0, 1;\n");
  EXPECT_EQ(body_of(
                [](auto& k) {
                  Acc<int32_t, 8, 8> d(k);
                  U32 x = k.lane();
                  mma(d, Tile<int8_t, 8, 16>{{x}}, Tile<uint8_t, 16, 8>{{x}});
                },
                "sm_80"),
            "  mov.s32 %r0, 0;\n"
            "  mov.s32 %r1, 0;\n"
            "  mov.u32 %r2, %laneid;\n"
            "  mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32 {%r0, %r1}, {%r2}, {%r2}, {%r0, %r1};\n");
}

TEST(Print, CopiesAndBarriers) {
  EXPECT_EQ(body_of(
                [](auto& k) {
                  Mbarrier bar = mbarrier(k);
                  bar.init(1u);
                  bar.arrive_expect_bytes(64u);
                  bar.wait(k, 0u);
                  bar.in_block(1u).arrive();
                  k.elect_one();
                  shuffle_checked(ShuffleMode::up, k.lane(), 1u);
                },
                "sm_90"),
            "  mov.u32 %r0, smem;\n"
            "  mbarrier.init.shared.b64 [%r0], 1;\n"
            "  mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r0], 64;\n"
            "$L0:\n"
            "  mbarrier.try_wait.parity.shared.b64 %p0, [%r0], 0;\n"
            "  not.pred %p1, %p0;\n"
            "  @!%p1 bra $L1;\n"
            "  bra.uni $L0;\n"
            "$L1:\n"
            "  mapa.shared::cluster.u32 %r1, %r0, 1;\n"
            "  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];\n"
            "  elect.sync _|%p2, 0xffffffff;\n"
            "  mov.u32 %r2, %laneid;\n"
            "  shfl.sync.up.b32 %r3|%p3, %r2, 1, 0, 0xffffffff;\n");
}

TEST(Print, RefusesAKernelNamedLikeItsMemory) {
  Kernel k;
  k.threads_x = 32;
  for (const char* taken : {"smem", "constants"}) {
    k.name = taken;
    EXPECT_THROW(print(k, target("sm_75")), Error) << taken;
  }
}

TEST(Target, AreKnownByName) {
  EXPECT_EQ(targets().size(), 10u);
  EXPECT_EQ(target("sm_90a").sm, 90u);
  EXPECT_TRUE(target("sm_90a").specific);
  EXPECT_EQ(target("sm_86").max_shared_bytes, 99u * 1024);
  try {
    target("sm_70");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "unknown target sm_70; known are sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_120, sm_120a");
  }
}

TEST(Target, HasWhatItsArchitectureHas) {
  const auto having = [](const Need& n) {
    std::string names;
    for (const Target& t : targets())
      if (has(t, n)) names += t.name.substr(3) + " ";
    return names;
  };
  EXPECT_EQ(having({}), "75 80 86 89 90 90a 100 100a 120 120a ");
  EXPECT_EQ(having({.sm = 89}), "89 90 90a 100 100a 120 120a ");
  EXPECT_EQ(having(need({.op = Op::wgmma_fence})), "90a ");
  EXPECT_EQ(having(need({.op = Op::setmaxnreg})), "90a 100a 120a ");
}

TEST(Mnemonic, NamesWhatIsPrinted) {
  EXPECT_EQ(mnemonic({.op = Op::fma, .type = Type::f32, .round = Round::rn}), "fma.rn.f32");
  EXPECT_EQ(mnemonic({.op = Op::neg, .type = Type::u32}), "neg.s32");
  EXPECT_EQ(mnemonic({.op = Op::cvt, .type = Type::e4m3x2, .from = Type::f32, .round = Round::rn, .sat = true}),
            "cvt.rn.satfinite.e4m3x2.f32");
  EXPECT_EQ(mnemonic({.op = Op::cvt, .type = Type::u16, .from = Type::s32, .sat = true}), "cvt.sat.u16.s32");
  EXPECT_EQ(mnemonic({.op = Op::cvt, .type = Type::s32, .from = Type::u16, .sat = true}), "cvt.s32.u16");
  EXPECT_EQ(mnemonic({.op = Op::atom,
                      .type = Type::s64,
                      .space = Space::global,
                      .order = Order::acq_rel,
                      .scope = Scope::sys,
                      .atomic = Atomic::add}),
            "atom.acq_rel.sys.global.add.u64");
  EXPECT_EQ(mnemonic({.op = Op::fence, .order = Order::release, .scope = Scope::gpu}), "fence.acq_rel.gpu");
  // also for what PTX would refuse
  EXPECT_EQ(mnemonic({.op = Op::load, .type = Type::u32, .space = Space::global, .vec = 3}), "ld.global.v3.u32");
  EXPECT_EQ(mnemonic({.op = Op::tensor_load}),
            "cp.async.bulk.tensor.0d.shared::cluster.global.tile.mbarrier::complete_tx::bytes");
}

TEST(Names, OfOpsAndTypesAreDistinct) {
  std::set<std::string> ops, types;
  for (int op = 0; op <= int(Op::trap); ++op) EXPECT_TRUE(ops.insert(name(Op(op))).second) << name(Op(op));
  for (int t = 0; t <= int(Type::e5m2); ++t) EXPECT_TRUE(types.insert(name(Type(t))).second) << name(Type(t));
  EXPECT_STREQ(name(Op::mul_wide), "mul_wide");
  EXPECT_STREQ(name(Type::bf16x2), "bf16x2");
}

}  // namespace
}  // namespace heddle::ptx
