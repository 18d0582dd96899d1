// The instructions of a kernel as lines of PTX, with the registers, labels and source files they name.
#pragma once
#include <array>
#include <initializer_list>
#include <span>
#include <utility>

#include "ptx/target.h"

namespace heddle::ptx {

class Body {
 public:
  Body(const Kernel& kernel, bool lines);
  const std::string& text() const { return text_; }
  std::string registers() const;                                    // their declarations
  const std::vector<std::string>& files() const { return files_; }  // file n of a .loc is files()[n - 1]

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
  void line(std::string_view text) { text_.append("  ").append(text).append(";\n"); }
  void emit(const Inst& i, std::initializer_list<std::string> operands);
  void label(std::string_view name) { text_.append(name).append(":\n"); }
  std::string new_label();
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

  static constexpr size_t classes = 6;  // of registers: pred, b16, b32, f32, b64, f64

  const Kernel& kernel_;
  const bool lines_;
  std::string text_;
  std::vector<uint32_t> number_;                      // register id -> number in its class
  std::array<uint32_t, classes> counts_{};            // registers of each class
  std::array<uint32_t, classes> temporary_counts_{};  // and those of the printer's own
  std::array<uint32_t, classes> in_use_{};            // temporaries of the instruction being printed
  std::vector<std::string> files_;
  std::pair<size_t, uint32_t> place_{};  // file and line of the last .loc
  uint32_t labels_ = 0;
};

}  // namespace heddle::ptx
