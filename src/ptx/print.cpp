// Kernel -> PTX text. Register and label names are made here, so none can clash.
#include "ptx/print.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <utility>

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
constexpr std::array<RegClass, 6> classes{{{"pred", "%p", "%tp"},
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
  const Type t = i.src[n].type;
  switch (i.op) {
    case Op::mov:
    case Op::assume_uniform:
    case Op::bitcast:
    case Op::store:
      return !(i.policy && n + 1 == i.src.size());
    case Op::select:
      return n < 2 && i.type != Type::pred;
    case Op::shuffle:
    case Op::bulk_load:
    case Op::bulk_store:
    case Op::bulk_shared:
    case Op::cp_async:
      return n > 0;
    case Op::cvt:
    case Op::pack:
    case Op::unpack:
    case Op::vote:
    case Op::match:
    case Op::redux:
      return false;
    default:
      return has_literal(t);
  }
}

class Printer {
 public:
  Printer(const Kernel& kernel, PrintOptions options) : kernel_(kernel), options_(options) {
    for (Type t : kernel.regs) number_.push_back(counts_[class_of(t)]++);
  }
  std::string text(const Target& target);

 private:
  // Registers and operands.
  std::string reg(const Operand& o) const;
  std::string temporary(size_t reg_class);
  std::string in_register(const Operand& o);
  std::string source(const Inst& i, size_t n);
  std::string sources(const Inst& i, size_t first = 0);
  std::string group(std::span<const Operand> parts);
  std::string address(const Operand& base, int64_t offset = 0);

  // Lines.
  void line(std::string_view text) { out_.append("  ").append(text).append(";\n"); }
  void emit(const Inst& i, std::initializer_list<std::string> operands);
  void label(std::string_view name) { out_.append(name).append(":\n"); }
  std::string new_label() { return fmt::format("$L{}", labels_++); }
  void place(const Inst& i);

  // Instructions.
  void block(const Block& b);
  void instruction(const Inst& i);
  void move(const Inst& i);
  void select(const Inst& i);
  void convert(const Inst& i);
  void load(const Inst& i);
  void store(const Inst& i);
  void tensor(const Inst& i);
  void mma(const Inst& i);
  void wgmma(const Inst& i);
  void when(const Inst& i);
  void loop(const Inst& i);

  Version version(const Target& target) const;
  std::string header(const Target& target) const;
  std::string registers() const;

  const Kernel& kernel_;
  PrintOptions options_;
  std::string out_;               // the body
  std::vector<uint32_t> number_;  // register id -> number in its class
  std::array<uint32_t, classes.size()> counts_{}, temporaries_{}, in_use_{};
  std::vector<std::string> files_;
  std::pair<size_t, uint32_t> place_{};  // file and line of the last .loc
  uint32_t labels_ = 0;
};

// --- registers and operands ----------------------------------------------------------------------------------------

std::string Printer::reg(const Operand& o) const {
  check(o.kind == Operand::Kind::reg && o.reg < kernel_.regs.size(), "an operand that is a register of the kernel");
  return fmt::format("{}{}", classes[class_of(kernel_.regs[o.reg])].prefix, number_[o.reg]);
}

// Free again after the instruction.
std::string Printer::temporary(size_t reg_class) {
  const uint32_t n = in_use_[reg_class]++;
  temporaries_[reg_class] = std::max(temporaries_[reg_class], n + 1);
  return fmt::format("{}{}", classes[reg_class].temporary, n);
}

std::string Printer::in_register(const Operand& o) {
  if (o.kind != Operand::Kind::imm) return reg(o);
  const size_t c = class_of(o.type);
  std::string t = temporary(c);
  line(fmt::format("mov.{} {}, {}", classes[c].type, t, literal(o)));
  return t;
}

std::string Printer::source(const Inst& i, size_t n) {
  const Operand& o = i.src.at(n);
  return o.kind == Operand::Kind::imm && takes_literal(i, n) ? literal(o) : in_register(o);
}

std::string Printer::sources(const Inst& i, size_t first) {
  std::string s;
  for (size_t n = first; n < i.src.size(); ++n) s += (n == first ? "" : ", ") + source(i, n);
  return s;
}

std::string Printer::group(std::span<const Operand> parts) {
  std::string s = "{";
  for (const Operand& o : parts) s += (s.size() > 1 ? ", " : "") + in_register(o);
  return s + "}";
}

// PTX adds a constant of 32 bits, signed.
std::string Printer::address(const Operand& base, int64_t offset) {
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
void Printer::emit(const Inst& i, std::initializer_list<std::string> operands) {
  std::string s = mnemonic(i);
  const char* separator = " ";
  for (const std::string& operand : operands) {
    if (operand.empty()) continue;
    s.append(separator).append(operand);
    separator = ", ";
  }
  line(s);
}

void Printer::place(const Inst& i) {
  if (!options_.lines || !i.line) return;
  size_t file = size_t(std::find(files_.begin(), files_.end(), i.file) - files_.begin());
  if (file == files_.size()) files_.push_back(i.file);
  if (std::exchange(place_, std::pair(file + 1, i.line)) == place_) return;
  out_ += fmt::format("  .loc {} {} 0\n", file + 1, i.line);
}

// --- instructions --------------------------------------------------------------------------------------------------

void Printer::block(const Block& b) {
  for (const Inst& i : b) {
    in_use_ = {};
    place(i);
    instruction(i);
  }
}

void Printer::instruction(const Inst& i) {
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
      return emit(i, {dst(), plus("smem", int64_t(i.src.at(0).bits))});
    case Op::dynamic_shared_address:
      return emit(i, {dst(), plus("smem", dynamic_shared_offset(kernel_))});
    case Op::constant_address:
      return emit(i, {dst(), plus("constants", int64_t(i.src.at(0).bits))});
    case Op::param_address:
      line(fmt::format("mov.b64 {}, {}", dst(), plus("args", int64_t(i.src.at(0).bits))));
      return emit(i, {dst(), dst()});
    case Op::shuffle:
      return emit(i, {i.dst.size() > 1 ? dst() + "|" + reg(i.dst[1]) : dst(), sources(i), "0xffffffff"});
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
    case Op::tensor_prefetch:
      return emit(i, {address(i.src.at(0))});
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

void Printer::move(const Inst& i) {
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
void Printer::select(const Inst& i) {
  if (i.type != Type::pred) return emit(i, {reg(i.dst.at(0)), sources(i)});
  const std::string a = source(i, 0), b = source(i, 1), p = source(i, 2);
  const std::string yes = temporary(0), no = temporary(0);
  line(fmt::format("and.pred {}, {}, {}", yes, p, a));
  line(fmt::format("not.pred {}, {}", no, p));
  line(fmt::format("and.pred {0}, {0}, {1}", no, b));
  emit(i, {reg(i.dst.at(0)), yes, no});
}

void Printer::convert(const Inst& i) {
  if (i.type == Type::f32 && i.from == Type::bf16)
    return emit(i, {reg(i.dst.at(0)), fmt::format("{{0, {}}}", source(i, 0))});
  emit(i, {reg(i.dst.at(0)), sources(i)});
}

void Printer::load(const Inst& i) {
  const std::string to = i.vec == 1 ? reg(i.dst.at(0)) : group(i.dst);
  if (i.space == Space::param)
    return emit(i, {to, fmt::format("[{}]", plus("args", int64_t(i.src.at(0).bits) + i.offset))});
  emit(i, {to, address(i.src.at(0), i.offset), i.policy ? source(i, 1) : ""});
}

void Printer::store(const Inst& i) {
  const std::string at = address(i.src.at(0), i.offset);
  std::string value = source(i, 1);
  for (size_t n = 2; n < 1u + i.vec; ++n) value += ", " + source(i, n);
  emit(i, {at, i.vec == 1 ? value : "{" + value + "}", i.policy ? source(i, 1u + i.vec) : ""});
}

void Printer::tensor(const Inst& i) {
  const bool is_load = i.op == Op::tensor_load;
  const std::string map = in_register(i.src.at(is_load ? 1 : 0)),
                    coordinates = group(std::span(i.src).subspan(is_load ? 3 : 2)),
                    box = fmt::format("[{}, {}]", map, coordinates);
  if (is_load) return emit(i, {address(i.src.at(0)), box, address(i.src.at(2))});
  emit(i, {box, address(i.src.at(1))});
}

void Printer::mma(const Inst& i) {
  // Of the sources, A fills the first registers, then B, then C; each register is 4 bytes in each of 32 lanes.
  const std::span<const Operand> src(i.src);
  const size_t a = size_t(i.m) * i.k * size_of(i.a_type) / 128, b = size_t(i.k) * i.n * size_of(i.b_type) / 128;
  check(src.size() == a + b + i.dst.size(), "mma has the registers of A, B and C");
  emit(i, {group(i.dst), group(src.first(a)), group(src.subspan(a, b)), group(src.subspan(a + b))});
}

// D, A, B, scale-d; for floats the signs of A and B; for 16-bit types the layout of what lies in shared memory.
void Printer::wgmma(const Inst& i) {
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

void Printer::when(const Inst& i) {
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

void Printer::loop(const Inst& i) {
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

// --- the module ----------------------------------------------------------------------------------------------------

void raise(Version& v, const Block& b) {
  for (const Inst& i : b) {
    v = std::max(v, need(i).version);
    raise(v, i.head);
    raise(v, i.body);
    raise(v, i.otherwise);
  }
}

Version Printer::version(const Target& target) const {
  Version v = std::max(target.version, Version(63));
  if (kernel_.cluster() > 1) v = std::max(v, Version(78));  // .reqnctapercluster
  raise(v, kernel_.body);
  return v;
}

std::string ascii(std::string s) {
  for (char& c : s)
    if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') c = '?';
  return s;
}

std::string Printer::header(const Target& target) const {
  const Kernel& k = kernel_;
  const Version v = version(target);
  std::string t = fmt::format(".version {}.{}\n.target {}\n.address_size 64\n", v / 10, v % 10, target.name);
  for (size_t f = 0; f < files_.size(); ++f) t += fmt::format(".file {} \"{}\"\n", f + 1, ascii(files_[f]));
  if (k.shared_at_launch())
    t += fmt::format(".extern .shared .align {} .b8 smem[];\n", k.shared_align);
  else if (k.shared_bytes)
    t += fmt::format(".shared .align {} .b8 smem[{}];\n", k.shared_align, k.shared_bytes);
  if (!k.constants.empty())
    t += fmt::format(".const .align 16 .b8 constants[{}] = {{{}}};\n", k.constants.size(), fmt::join(k.constants, ","));

  t += fmt::format("\n.visible .entry {}(", k.name);
  if (k.args_bytes) t += fmt::format(".param .align {} .b8 args[{}]", k.args_align, k.args_bytes);
  t += ")\n";
  // .reqntid, not .maxntid: the block size is part of the kernel, so a launch with another must fail.
  t += fmt::format(".reqntid {}, {}, {}\n", k.threads_x, k.threads_y, k.threads_z);
  if (k.min_blocks) t += fmt::format(".minnctapersm {}\n", k.min_blocks);
  if (k.max_registers) t += fmt::format(".maxnreg {}\n", k.max_registers);
  if (k.cluster() > 1) t += fmt::format(".reqnctapercluster {}, {}, {}\n", k.cluster_x, k.cluster_y, k.cluster_z);
  return t;
}

std::string Printer::registers() const {
  std::string t;
  for (size_t c = 0; c < classes.size(); ++c) {
    if (counts_[c]) t += fmt::format("  .reg .{} {}<{}>;\n", classes[c].type, classes[c].prefix, counts_[c]);
    if (temporaries_[c])
      t += fmt::format("  .reg .{} {}<{}>;\n", classes[c].type, classes[c].temporary, temporaries_[c]);
  }
  return t;
}

std::string Printer::text(const Target& target) {
  block(kernel_.body);
  return header(target) + "{\n" + registers() + out_ + "  ret;\n}\n";
}

}  // namespace

std::string print(const Kernel& kernel, const Target& target, PrintOptions options) {
  if (kernel.name == "smem" || kernel.name == "constants")
    throw Error("kernel {}: this name stands for its own memory in the text", kernel.name);
  return Printer(kernel, options).text(target);
}

}  // namespace heddle::ptx
