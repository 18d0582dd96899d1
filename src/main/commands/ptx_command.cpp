// Builds catalog kernels and hands them to the verifier, the printer and ptxas.
#include "main/commands/ptx_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <ostream>
#include <thread>

#include "base/error.h"
#include "base/parallel.h"
#include "base/ptxas.h"
#include "main/commands/commands.h"
#include "main/commands/suggestions.h"
#include "main/progress.h"
#include "ptx/expand.h"
#include "ptx/print.h"
#include "ptx/target.h"
#include "ptx/verify.h"

namespace heddle {
namespace {

const kernels::Entry& find_kernel(const std::vector<kernels::Entry>& catalog, const std::string& name) {
  for (const kernels::Entry& entry : catalog)
    if (entry.name == name) return entry;
  std::vector<std::string> known;
  for (const kernels::Entry& entry : catalog) known.push_back(entry.name);
  throw Error("{}", unknown_kernel(name, known));
}

// One kernel for one target: a cell of the table.
struct Cell {
  const kernels::Entry* entry;
  const ptx::Target* target;
  std::string shown;    // registers per thread, "ok" if it was not assembled, "-" if it is not for the target
  std::string failure;  // empty: it passed
};

void check_cell(Cell& cell, bool assembling) {
  try {
    const ptx::Kernel kernel = ptx::expanded(cell.entry->build({}), *cell.target);
    ptx::verify(kernel, *cell.target);
    const std::string text = ptx::print(kernel, *cell.target);
    cell.shown = "ok";
    if (!assembling) return;
    const Assembled assembled = assemble(text, cell.target->name);
    cell.shown = fmt::format("{}", assembled.registers);
    if (!assembled.ok)
      cell.failure = "does not assemble:\n" + assembled.log;
    else if (assembled.spill_bytes)
      cell.failure = fmt::format("spills {} bytes:\n{}", assembled.spill_bytes, assembled.log);
    else if (assembled.serialized)
      cell.failure = "matrix instructions are serialised:\n" + assembled.log;
  } catch (const std::exception& error) {
    cell.failure = error.what();
  }
  if (!cell.failure.empty()) cell.shown = "FAIL";
}

// Checks the cells that are still empty. ptxas is a process of its own, so a thread per core keeps all cores busy.
void check_cells(std::vector<Cell>& cells, bool assembling, std::ostream& err) {
  std::atomic<size_t> next = 0, done = 0;
  ProgressLine line(&err);
  std::vector<std::thread> threads;
  for (size_t i = 0, count = hardware_threads(); i < count; ++i)
    threads.emplace_back([&] {
      for (size_t at; (at = next++) < cells.size(); ++done) {
        line.count(fmt::format("{} for {}:", cells[at].entry->name, cells[at].target->name), done.load(), cells.size(),
                   "checked");
        if (cells[at].shown.empty()) check_cell(cells[at], assembling);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

void print_table(const std::vector<Cell>& cells, size_t columns, std::ostream& out) {
  size_t name_width = 6;
  for (const Cell& cell : cells) name_width = std::max(name_width, cell.entry->name.size());
  const auto width = [](const Cell& cell) { return std::max<size_t>(6, cell.target->name.size()); };

  out << fmt::format("{:{}}", "kernel", name_width);
  for (size_t i = 0; i < columns; ++i) out << fmt::format("  {:>{}}", cells[i].target->name, width(cells[i]));
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i % columns == 0) out << fmt::format("\n{:{}}", cells[i].entry->name, name_width);
    out << fmt::format("  {:>{}}", cells[i].shown, width(cells[i]));
  }
  out << '\n';
}

struct PtxOptions {
  std::string name, target;
  std::vector<std::string> names, targets, settings;
};

}  // namespace

void describe_ptx(CLI::App& program, std::ostream& out, std::ostream& err, int& status) {
  const auto options = std::make_shared<PtxOptions>();
  CLI::App* ptx = program.add_subcommand("ptx", "List, print and check the GPU kernels; needs no GPU");
  ptx->require_subcommand(0, 1);
  ptx->callback([ptx] {
    if (ptx->get_subcommands().empty()) throw CLI::CallForHelp();
  });

  CLI::App* list = ptx->add_subcommand("list", "List every kernel: lowest target, summary, fields and their defaults");
  list->callback([&out] { list_kernels(kernels::catalog(), out); });

  CLI::App* show = ptx->add_subcommand("show", "Verify one kernel and print its PTX");
  show->add_option("NAME", options->name, "A name from `heddle ptx list`")->required()->type_name("");
  show->add_option("--target", options->target, "GPU target such as sm_90a; default: the kernel's lowest")
      ->type_name("TARGET");
  show->add_option("--set", options->settings, "Set a field from `heddle ptx list`; repeatable")
      ->type_name("FIELD=VALUE")
      ->allow_extra_args(false);
  show->callback([options, &out] {
    show_kernel(kernels::catalog(), options->name, options->target, parse_settings(options->settings), out);
  });

  CLI::App* check = ptx->add_subcommand(
      "check", "Verify kernels and assemble them if ptxas is on PATH; a register spill is a failure");
  check->add_option("NAME", options->names, "Kernels to check; default: all")->type_name("");
  check->add_option("--target", options->targets, "Check for this target; repeatable; default: all")
      ->type_name("TARGET")
      ->allow_extra_args(false);
  check->callback([options, &out, &err, &status] {
    status = check_kernels(kernels::catalog(), options->names, options->targets, out, err) ? 0 : 1;
  });
}

void list_kernels(const std::vector<kernels::Entry>& catalog, std::ostream& out) {
  size_t name_width = 0;
  for (const kernels::Entry& entry : catalog) name_width = std::max(name_width, entry.name.size());
  for (const kernels::Entry& entry : catalog) {
    const std::string from = entry.lowest_target + (ptx::target(entry.lowest_target).specific ? "" : "+");
    out << fmt::format("{:{}}  {:7}  {}\n", entry.name, name_width, from, entry.summary);
    std::string fields = entry.spec == entry.name ? "" : fmt::format(" preset of {}:", entry.spec);
    for (const auto& [field, value] : entry.fields) fields += fmt::format(" {}={}", field, value);
    if (!fields.empty()) out << fmt::format("{:{}}          {}\n", "", name_width, fields);
  }
}

std::map<std::string, std::string> parse_settings(const std::vector<std::string>& settings) {
  std::map<std::string, std::string> parsed;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == 0 || equals == setting.npos) throw Error("--set {}: expected FIELD=VALUE", setting);
    const std::string field = setting.substr(0, equals);
    if (!parsed.emplace(field, setting.substr(equals + 1)).second)
      throw Error("--set {}: {} is set twice", setting, field);
  }
  return parsed;
}

void show_kernel(const std::vector<kernels::Entry>& catalog, const std::string& name, const std::string& target,
                 const std::map<std::string, std::string>& settings, std::ostream& out) {
  const kernels::Entry& entry = find_kernel(catalog, name);
  const ptx::Target& chosen = ptx::target(target.empty() ? entry.lowest_target : target);
  const ptx::Kernel kernel = ptx::expanded(entry.build(settings), chosen);
  ptx::verify(kernel, chosen);
  out << ptx::print(kernel, chosen);
}

bool check_kernels(const std::vector<kernels::Entry>& catalog, const std::vector<std::string>& names,
                   const std::vector<std::string>& targets, std::ostream& out, std::ostream& err) {
  std::vector<const kernels::Entry*> rows;
  for (const std::string& name : names) rows.push_back(&find_kernel(catalog, name));
  if (names.empty())
    for (const kernels::Entry& entry : catalog) rows.push_back(&entry);

  std::vector<const ptx::Target*> columns;
  for (const std::string& name : targets) columns.push_back(&ptx::target(name));
  if (targets.empty())
    for (const ptx::Target& target : ptx::targets()) columns.push_back(&target);

  std::vector<Cell> cells;  // row by row
  for (const kernels::Entry* entry : rows)
    for (const ptx::Target* target : columns)
      cells.push_back({entry, target, kernels::runs_on(entry->lowest_target, *target) ? "" : "-", ""});

  const bool assembling = ptxas_found();
  check_cells(cells, assembling, err);
  print_table(cells, columns.size(), out);
  out << (assembling ? "Numbers are registers per thread; - is a target the kernel is not for.\n"
                     : "ptxas is not on PATH: kernels were verified, NOT assembled.\n");

  size_t passed = 0, failed = 0;
  for (const Cell& cell : cells) {
    if (!cell.failure.empty())
      out << fmt::format("\n{} for {}: {}\n", cell.entry->name, cell.target->name, cell.failure);
    (cell.failure.empty() ? passed : failed) += cell.shown != "-";
  }
  out << fmt::format("\n{} kernels x {} targets: {} passed, {} failed\n", rows.size(), columns.size(), passed, failed);
  if (passed + failed == 0) out << "Nothing was checked: none of these kernels is for any of these targets.\n";
  return failed == 0 && passed > 0;
}

}  // namespace heddle
