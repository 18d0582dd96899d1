// Each instruction alone: the number, kind and type of its operands, and the modifiers it may carry.
#include "ptx/spelling.h"
#include "ptx/verify_rules.h"

namespace heddle::ptx {

// By the name of the Op and not by mnemonic(), which may rely on the form.
void Form::refuse(const std::string& why) const {
  const bool typed = inst.type != Type::none;
  throw Error("kernel {}: {}{}{}{}: {}", kernel.name, place(inst), name(inst.op), typed ? "." : "",
              typed ? name(inst.type) : "", why);
}

void Form::type_in(Types allowed) const {
  if (in(inst.type, allowed)) return;
  std::string list;
  for (unsigned t = 0; t < 32; ++t)
    if (allowed >> t & 1) list.append(list.empty() ? "" : ", ").append(name(Type(t)));
  refuse(fmt::format("the type is {}, expected one of {}", name(inst.type), list));
}

void Form::check(const Operand& o, Type t, const char* what, size_t index) const {
  expect(o.type == t, "{} {} is {}, expected {}", what, index, name(o.type), name(t));
  if (o.kind == Operand::Kind::reg) {
    expect(o.reg < kernel.regs.size(), "{} {} is register {}, the kernel has {}", what, index, o.reg,
           kernel.regs.size());
    expect(kernel.regs[o.reg] == t, "{} {} is register {} of type {}, expected {}", what, index, o.reg,
           name(kernel.regs[o.reg]), name(t));
  } else if (o.kind == Operand::Kind::imm) {
    const uint32_t bits = t == Type::pred ? 1 : 8 * size_of(t);
    expect(bits == 64 || !(o.bits >> bits), "{} {} is the immediate {:#x}, which does not fit {}", what, index, o.bits,
           name(t));
  }
}

void Form::dst(Type t) {
  expect(dst_ < inst.dst.size(), "has {} results, expected a {} more", inst.dst.size(), name(t));
  const Operand& o = inst.dst[dst_];
  expect(o.kind == Operand::Kind::reg, "result {} is not a register", dst_);
  check(o, t, "result", dst_++);
}

const Operand& Form::next() {
  expect(src_ < inst.src.size(), "has {} sources, expected more", inst.src.size());
  return inst.src[src_];
}

void Form::src(Type t) {
  const Operand& o = next();
  expect(o.kind == Operand::Kind::reg || o.kind == Operand::Kind::imm,
         "source {} is neither a register nor an immediate", src_);
  check(o, t, "source", src_++);
}

void Form::src_reg(Type t) {
  expect(next().kind == Operand::Kind::reg, "source {} is not a register", src_);
  src(t);
}

const Operand& Form::src_imm(Type t) {
  const Operand& o = next();
  expect(o.kind == Operand::Kind::imm, "source {} is not an immediate", src_);
  src(t);
  return o;
}

void Form::src_special(Type t) {
  const Operand& o = next();
  if (o.kind != Operand::Kind::special) return src(t);
  const bool timer = o.special == Special::clock || o.special == Special::globaltimer;  // u32: their low half
  expect(o.type == t && (t == Type::u32 || (t == Type::u64 && timer)), "{} is not a {}", spell(o.special), name(t));
  ++src_;
}

void Form::round_in(std::initializer_list<Round> allowed) {
  reads(reads_round);
  for (Round r : allowed)
    if (inst.round == r) return;
  std::string list;
  for (Round r : allowed) list.append(list.empty() ? "" : ", ").append(r == Round::none ? "none" : spell(r));
  refuse(fmt::format("rounding is {}, expected {}", inst.round == Round::none ? "none" : spell(inst.round), list));
}

void Form::ftz_for(Types types) {
  if (in(inst.type, types)) reads(reads_ftz);
}

void Form::end() const {
  expect(!results_left(), "has {} results, expected {}", inst.dst.size(), dst_);
  expect(!sources_left(), "has {} sources, expected {}", inst.src.size(), src_);
  auto unread = [&](Field f, bool is_set, const char* what) {
    expect(!is_set || (fields_ & f), "takes no {} here", what);
  };
  unread(reads_round, inst.round != Round::none, "rounding");
  unread(reads_ftz, inst.ftz, "ftz");
  unread(reads_sat, inst.sat, "sat");
  unread(reads_approx, inst.approx, "approx");
  unread(reads_nan, inst.nan, "NaN");
  unread(reads_offset, inst.offset != 0, "offset");
  unread(reads_order, inst.order != Order::weak, "order");
  unread(reads_scope, inst.scope != Scope::none, "scope");
  unread(reads_policy, inst.policy, "cache policy");
  unread(reads_vec, inst.vec != 1, "vec");
  unread(reads_regions, !inst.head.empty() || !inst.body.empty() || !inst.otherwise.empty(), "region");
}

namespace {

bool structure_form(Form& f) {
  const Inst& i = f.inst;
  switch (i.op) {
    case Op::when:
      f.src_reg(Type::pred);
      f.reads(reads_regions);
      f.expect(i.head.empty(), "a when has no head");
      return true;
    case Op::loop:
      f.src_reg(Type::pred);
      f.reads(reads_regions);
      f.expect(i.otherwise.empty(), "a loop has no else");
      return true;
    case Op::assume_uniform:
      f.type_in(held | set_of({Type::pred}));
      f.dst(i.type);
      f.src(i.type);
      return true;
    case Op::trap:
      return true;
    default:
      return false;
  }
}

}  // namespace

void verify_types(const Kernel& k) {
  each_instruction(k.body, [&](const Inst& i) {
    Form f(k, i);
    const bool known = arithmetic_form(f) || memory_form(f) || across_form(f) || matrix_form(f) || structure_form(f);
    f.expect(known, "no such instruction");
    f.end();
  });
}

}  // namespace heddle::ptx
