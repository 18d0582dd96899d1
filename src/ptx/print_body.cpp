// Registers and operands first, then one case per instruction whose operands are not simply results and sources.
#include "ptx/print_body.h"

#include <algorithm>

#include "base/error.h"
#include "ptx/spelling.h"

namespace heddle::ptx {
namespace {

// One range of registers per class: `.reg .b32 %r<7>;`.
struct RegClass {
  const char* type;
  const char* prefix;
  const char* temporary;  // registers of the printer's own
};
constexpr std::array<RegClass, 6> reg_classes{{{"pred", "%p", "%tp"},
                                               {"b16", "%h", "%th"},
                                               {"b32", "%r", "%tr"},
                                               {"f32", "%f", "%tf"},
                                               {"b64", "%d", "%td"},
                                               {"f64", "%fd", "%tfd"}}};

size_t class_of(Type t) {
  if (t == Type::pred) return 0;
  if (t == Type::f32) return 3;
  if (t == Type::f64) return 5;
  switch (register_bytes(t)) {
    case 2:
      return 1;
    case 4:
      return 2;
    case 8:
      return 4;
  }
  throw Error("a register of type {}", name(t));
}

// A constant as PTX reads it. Floats are exact bits; 16-bit and packed floats have no literal of their own.
std::string literal(const Operand& o) {
  switch (o.type) {
    case Type::f32:
      return fmt::format("0f{:08X}", o.bits);
    case Type::f64:
      return fmt::format("0d{:016X}", o.bits);
    case Type::s8:
      return fmt::format("{}", int8_t(o.bits));
    case Type::s16:
      return fmt::format("{}", int16_t(o.bits));
    case Type::s32:
      return fmt::format("{}", int32_t(o.bits));
    case Type::s64:
      return fmt::format("{}", int64_t(o.bits));
    case Type::pred:
      return o.bits & 1 ? "1" : "0";
    case Type::f16:
    case Type::bf16:
    case Type::e4m3x2:
    case Type::e5m2x2:
      return fmt::format("0x{:04X}", o.bits);
    case Type::f16x2:
    case Type::bf16x2:
    case Type::tf32:
      return fmt::format("0x{:08X}", o.bits);
    default:
      return o.bits < 0x10000 ? fmt::format("{}", o.bits) : fmt::format("0x{:x}", o.bits);
  }
}

std::string plus(std::string_view name, int64_t offset) {
  return offset ? fmt::format("{}+{}", name, offset) : std::string(name);  // PTX wants a+-4
}

bool has_literal(Type t) { return is_integer(t) || t == Type::f32 || t == Type::f64; }

// May source n of this instruction be a constant in the text? If not, it goes through a register.
bool takes_literal(const Inst& i, size_t n) {
  if (i.policy && n + 1 == i.src.size()) return false;
  switch (i.op) {
    case Op::mov:  // these move bits of any type
    case Op::assume_uniform:
    case Op::bitcast:
    case Op::store:
      return true;
    case Op::select:
      return n < 2 && i.type != Type::pred;
    default:
      return has_literal(i.src[n].type);
  }
}

}  // namespace

Body::Body(const Kernel& kernel, bool lines) : kernel_(kernel), lines_(lines) {
  for (Type t : kernel.regs) number_.push_back(counts_[class_of(t)]++);
  block(kernel.body);
}

std::string Body::registers() const {
  std::string t;
  for (size_t c = 0; c < classes; ++c) {
    if (counts_[c]) t += fmt::format("  .reg .{} {}<{}>;\n", reg_classes[c].type, reg_classes[c].prefix, counts_[c]);
    if (temporary_counts_[c])
      t += fmt::format("  .reg .{} {}<{}>;\n", reg_classes[c].type, reg_classes[c].temporary, temporary_counts_[c]);
  }
  return t;
}

// --- registers and operands ----------------------------------------------------------------------------------------

std::string Body::reg(const Operand& o) const {
  check(o.kind == Operand::Kind::reg && o.reg < kernel_.regs.size(), "an operand that is a register of the kernel");
  return fmt::format("{}{}", reg_classes[class_of(kernel_.regs[o.reg])].prefix, number_[o.reg]);
}

// Free again after the instruction.
std::string Body::temporary(size_t reg_class) {
  const uint32_t n = in_use_[reg_class]++;
  temporary_counts_[reg_class] = std::max(temporary_counts_[reg_class], n + 1);
  return fmt::format("{}{}", reg_classes[reg_class].temporary, n);
}

std::string Body::in_register(const Operand& o) {
  if (o.kind != Operand::Kind::imm) return reg(o);
  const size_t c = class_of(o.type);
  std::string t = temporary(c);
  line(fmt::format("mov.{} {}, {}", reg_classes[c].type, t, literal(o)));
  return t;
}

std::string Body::source(const Inst& i, size_t n) {
  const Operand& o = i.src.at(n);
  return o.kind == Operand::Kind::imm && takes_literal(i, n) ? literal(o) : in_register(o);
}

std::string Body::sources(const Inst& i, size_t first) {
  std::string s;
  for (size_t n = first; n < i.src.size(); ++n) s += (n == first ? "" : ", ") + source(i, n);
  return s;
}

std::string Body::group(std::span<const Operand> parts) {
  std::string s = "{";
  for (const Operand& o : parts) s += (s.size() > 1 ? ", " : "") + in_register(o);
  return s + "}";
}

// PTX adds a constant of 32 bits, signed.
std::string Body::address(const Operand& base, int64_t offset) {
  std::string b = in_register(base);
  if (offset != int32_t(offset)) {
    std::string sum = temporary(class_of(base.type));
    line(fmt::format("add.{} {}, {}, {}", name(base.type), sum, b, offset));
    return fmt::format("[{}]", sum);
  }
  return fmt::format("[{}]", plus(b, offset));
}

// --- lines ---------------------------------------------------------------------------------------------------------

// mnemonic a, b, c; empty operands are left out.
void Body::emit(const Inst& i, std::initializer_list<std::string> operands) {
  std::string s = mnemonic(i);
  const char* separator = " ";
  for (const std::string& operand : operands) {
    if (operand.empty()) continue;
    s.append(separator).append(operand);
    separator = ", ";
  }
  line(s);
}

std::string Body::new_label() { return fmt::format("$L{}", labels_++); }

void Body::place(const Inst& i) {
  if (!lines_ || !i.line) return;
  size_t file = size_t(std::find(files_.begin(), files_.end(), i.file) - files_.begin());
  if (file == files_.size()) files_.push_back(i.file);
  const std::pair here(file + 1, i.line);
  if (here == place_) return;
  place_ = here;
  text_ += fmt::format("  .loc {} {} 0\n", here.first, here.second);
}

// --- instructions --------------------------------------------------------------------------------------------------

void Body::block(const Block& b) {
  for (const Inst& i : b) {
    in_use_ = {};
    place(i);
    instruction(i);
  }
}

void Body::instruction(const Inst& i) {
  const auto dst = [&] { return reg(i.dst.at(0)); };
  switch (i.op) {
    case Op::mov:
      return move(i);
    case Op::select:
      return select(i);
    case Op::cvt:
      return convert(i);
    case Op::pack:
      return emit(i, {dst(), group(i.src)});
    case Op::unpack:
      return emit(i, {group(i.dst), source(i, 0)});
    case Op::load:
      return load(i);
    case Op::store:
      return store(i);
    case Op::atom:
      return emit(i, {dst(), address(i.src.at(0), i.offset), sources(i, 1)});
    case Op::red:
      return emit(i, {address(i.src.at(0), i.offset), sources(i, 1)});
    case Op::prefetch:
      return emit(i, {address(i.src.at(0), i.offset)});
    case Op::shared_address:
      return emit(i, {dst(), plus(kernel_.shared_bytes ? "smem" : "0", int64_t(i.src.at(0).bits))});  // may be empty
    case Op::dynamic_shared_address:
      return emit(i, {dst(), plus("smem", dynamic_shared_offset(kernel_))});
    case Op::constant_address:
      return emit(i, {dst(), plus(kernel_.constants.empty() ? "0" : "constants", int64_t(i.src.at(0).bits))});
    case Op::param_address:
      line(fmt::format("mov.b64 {}, {}", dst(), plus("args", int64_t(i.src.at(0).bits))));
      return emit(i, {dst(), dst()});
    case Op::shuffle:
    case Op::match:
      return emit(i, {i.dst.size() > 1 ? dst() + "|" + reg(i.dst[1]) : dst(), sources(i), "0xffffffff"});
    case Op::vote:
    case Op::redux:
      return emit(i, {dst(), sources(i), "0xffffffff"});
    case Op::elect:
      return emit(i, {"_|" + dst(), "0xffffffff"});
    case Op::warp_sync:
      return emit(i, {"0xffffffff"});
    case Op::barrier_reduce:
      return emit(i, {dst(), "0", in_register(i.src.at(0))});
    case Op::cp_async:
      return emit(i, {address(i.src.at(0)), address(i.src.at(1)), fmt::format("{}", i.bytes), sources(i, 2)});
    case Op::cp_async_mbarrier:
    case Op::mbarrier_inval:
    case Op::tensor_prefetch:
      return emit(i, {address(i.src.at(0))});
    case Op::bulk_load:
      return emit(i, {address(i.src.at(0)), address(i.src.at(1)), source(i, 2), address(i.src.at(3)), sources(i, 4)});
    case Op::bulk_store:
      return emit(i, {address(i.src.at(0)), address(i.src.at(1)), source(i, 2)});
    case Op::bulk_shared:
      return emit(i, {address(i.src.at(0)), address(i.src.at(1)), source(i, 2), address(i.src.at(3))});
    case Op::tensor_load:
    case Op::tensor_store:
      return tensor(i);
    case Op::mbarrier_init:
    case Op::mbarrier_expect:
      return emit(i, {address(i.src.at(0)), source(i, 1)});
    case Op::mbarrier_arrive:
    case Op::mbarrier_arrive_expect:
      return emit(i, {i.dst.empty() ? "_" : dst(), address(i.src.at(0)), sources(i, 1)});
    case Op::mbarrier_test:
    case Op::mbarrier_try:
      return emit(i, {dst(), address(i.src.at(0)), source(i, 1)});
    case Op::ldmatrix:
      return emit(i, {group(i.dst), address(i.src.at(0), i.offset)});
    case Op::stmatrix:
      return emit(i, {address(i.src.at(0), i.offset), group(std::span(i.src).subspan(1))});
    case Op::mma:
      return mma(i);
    case Op::wgmma:
      return wgmma(i);
    case Op::when:
      return when(i);
    case Op::loop:
      return loop(i);
    default:
      return emit(i, {i.dst.empty() ? "" : dst(), sources(i)});
  }
}

void Body::move(const Inst& i) {
  const Operand& from = i.src.at(0);
  if (from.kind != Operand::Kind::special) return emit(i, {reg(i.dst.at(0)), source(i, 0)});
  std::string what = spell(from.special);
  if (from.special == Special::clock && i.type == Type::u32) what = "%clock";
  if (from.special == Special::globaltimer && i.type == Type::u32) what = "%globaltimer_lo";
  emit(i, {reg(i.dst.at(0)), what});
  // %warpid may change while the kernel runs; tid.x / 32 does not.
  if (from.special == Special::warp) line(fmt::format("shr.u32 {0}, {0}, 5", reg(i.dst[0])));
  if (from.special == Special::group) line(fmt::format("shr.u32 {0}, {0}, 7", reg(i.dst[0])));
}

// selp knows no predicates: d = (p and a) or (not p and b).
void Body::select(const Inst& i) {
  if (i.type != Type::pred) return emit(i, {reg(i.dst.at(0)), sources(i)});
  const std::string a = source(i, 0), b = source(i, 1), p = source(i, 2);
  const std::string yes = temporary(0), no = temporary(0);
  line(fmt::format("and.pred {}, {}, {}", yes, p, a));
  line(fmt::format("not.pred {}, {}", no, p));
  line(fmt::format("and.pred {0}, {0}, {1}", no, b));
  emit(i, {reg(i.dst.at(0)), yes, no});
}

void Body::convert(const Inst& i) {
  if (i.type == Type::f32 && i.from == Type::bf16)
    return emit(i, {reg(i.dst.at(0)), fmt::format("{{0, {}}}", source(i, 0))});
  emit(i, {reg(i.dst.at(0)), sources(i)});
}

void Body::load(const Inst& i) {
  const std::string to = i.vec == 1 ? reg(i.dst.at(0)) : group(i.dst);
  if (i.space == Space::param)
    return emit(i, {to, fmt::format("[{}]", plus("args", int64_t(i.src.at(0).bits) + i.offset))});
  emit(i, {to, address(i.src.at(0), i.offset), i.policy ? source(i, 1) : ""});
}

void Body::store(const Inst& i) {
  const std::string at = address(i.src.at(0), i.offset);
  std::string value = source(i, 1);
  for (size_t n = 2; n < 1u + i.vec; ++n) value += ", " + source(i, n);
  emit(i, {at, i.vec == 1 ? value : "{" + value + "}", i.policy ? source(i, 1u + i.vec) : ""});
}

void Body::tensor(const Inst& i) {
  const bool is_load = i.op == Op::tensor_load;
  const std::string map = in_register(i.src.at(is_load ? 1 : 0)),
                    coordinates = group(std::span(i.src).subspan(is_load ? 3 : 2)),
                    box = fmt::format("[{}, {}]", map, coordinates);
  if (is_load) return emit(i, {address(i.src.at(0)), box, address(i.src.at(2))});
  emit(i, {box, address(i.src.at(1))});
}

void Body::mma(const Inst& i) {
  // Of the sources, A fills the first registers, then B, then C; each register is 4 bytes in each of 32 lanes.
  const std::span<const Operand> src(i.src);
  const size_t a = size_t(i.m) * i.k * size_of(i.a_type) / 128, b = size_t(i.k) * i.n * size_of(i.b_type) / 128;
  check(src.size() == a + b + i.dst.size(), "mma has the registers of A, B and C");
  emit(i, {group(i.dst), group(src.first(a)), group(src.subspan(a, b)), group(src.subspan(a + b))});
}

// D, A, B, scale-d; for floats the signs of A and B; for 16-bit types the layout of what lies in shared memory.
void Body::wgmma(const Inst& i) {
  const std::span<const Operand> src(i.src);
  check(src.size() >= 3, "wgmma has A, B and a predicate");
  const std::string a = i.a_shared ? in_register(src[0]) : group(src.first(src.size() - 2)),
                    b = in_register(src[src.size() - 2]), add = in_register(src.back());
  std::string rest;
  if (!is_integer(i.a_type)) rest = fmt::format("{}, {}", i.negate_a ? -1 : 1, i.negate_b ? -1 : 1);
  if (size_of(i.a_type) == 2) {
    if (i.a_shared) rest += fmt::format(", {:d}", i.transpose_a);
    rest += fmt::format(", {:d}", i.transpose_b);
  }
  emit(i, {group(i.dst), a, b, add, rest});
}

void Body::when(const Inst& i) {
  const std::string end = new_label(), p = in_register(i.src.at(0));
  line(fmt::format("@!{} bra {}", p, end));
  block(i.body);
  if (i.otherwise.empty()) return label(end);
  const std::string after = new_label();
  line("bra.uni " + after);
  label(end);
  block(i.otherwise);
  label(after);
}

void Body::loop(const Inst& i) {
  const std::string again = new_label(), end = new_label();
  label(again);
  block(i.head);
  in_use_ = {};
  place(i);
  line(fmt::format("@!{} bra {}", in_register(i.src.at(0)), end));
  block(i.body);
  line("bra.uni " + again);
  label(end);
}

}  // namespace heddle::ptx
