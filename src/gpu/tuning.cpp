// The file has a line per kernel: "product" or "attention", what it is for, a tab, the numbers.
#include "gpu/tuning.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace heddle::gpu {
namespace {

using kernels::ClusterChoice;
using kernels::Product;
using kernels::ProductChoice;

constexpr std::string_view first_line = "heddle tuning 1";

// What is computed, without the shape of how.
std::string key_of(Product what, uint32_t rows, uint32_t cols, bool large) {
  const Product how;
  what.tile_cols = how.tile_cols, what.slices = how.slices, what.groups = how.groups, what.per_warp = how.per_warp;
  what.depth = how.depth, what.resident = how.resident, what.unit = how.unit, what.room = how.room,
  what.late = how.late;
  std::string text;
  kernels::each_field<Product>([&](const auto& field) {
    if (what.*field.member != how.*field.member || field.name == "format")
      text += fmt::format("{}={} ", field.name, field.allowed.text(what.*field.member));
  });
  return fmt::format("{}{}{} -> {}", text, large ? "large " : "", cols, rows);
}
std::string key_of(uint32_t head, uint32_t kv_heads, uint32_t sequences, uint32_t length) {
  return fmt::format("{} kv heads of {}, {} sequences, {} positions", kv_heads, head, sequences,
                     length <= short_length    ? fmt::format("up to {}", short_length)
                     : length <= middle_length ? fmt::format("up to {}", middle_length)
                                               : fmt::format("more than {}", middle_length));
}

std::string line_of(const ProductChoice& c) {
  const Product& s = c.spec;
  return fmt::format("{} {} {} {} {} {} {} {}", s.unit, s.groups, s.per_warp, s.depth, s.resident, s.room, s.late,
                     c.blocks_per_sm);
}
std::string line_of(const ClusterChoice& c) {
  const kernels::ClusterAttention& s = c.spec;
  return fmt::format("{} {} {} {} {} {}", s.splits, s.rows, s.stages, s.warps, c.clusters, s.ahead);
}
template <size_t N>
std::optional<std::array<uint32_t, N>> numbers(const std::string& line) {
  std::istringstream in(line);
  std::array<uint32_t, N> n{};
  for (uint32_t& v : n)
    if (!(in >> v) || v > 65535) return {};
  return n;
}

bool cluster_fits(const kernels::ClusterAttention& s) {
  return s.stages > 0 && s.warps * 2 <= s.rows && (s.warps < 8 || s.head_dim <= 160) &&
         s.stages * s.stage_bytes() <= 180 * 1024;
}

std::vector<ClusterChoice> attention_candidates(const ClusterChoice& given, uint32_t head, uint32_t kv_heads,
                                                uint32_t sequences, uint32_t length, uint32_t sms) {
  std::vector<ClusterChoice> all{given};
  const uint32_t pairs = std::max(1u, kv_heads * sequences);
  auto add = [&](kernels::ClusterAttention spec, uint32_t clusters) {
    spec.merge = clusters > 1;
    if (!cluster_fits(spec)) return;
    all.push_back({spec, clusters});
  };
  kernels::ClusterAttention spec{.head_dim = head};
  if (length <= short_length) {
    for (uint32_t splits : {4u, 8u, 16u})
      for (uint32_t rows : {2u, 4u, 8u}) {
        spec.splits = splits, spec.rows = rows, spec.warps = std::max(1u, rows / 2), spec.stages = 16 / rows;
        add(spec, 1);
      }
    return all;
  }
  for (uint32_t splits : {1u, 2u, 4u, 8u})
    for (auto [rows, warps] : {std::pair(8u, 4u), std::pair(16u, 4u), std::pair(16u, 8u)})
      for (uint32_t kilobytes : {66u, 100u, 132u, 160u})
        for (uint32_t ahead : {0u, 2u}) {
          spec.splits = splits, spec.rows = rows, spec.warps = warps, spec.ahead = ahead;
          spec.stages = std::min(16u, kilobytes * 1024 / spec.stage_bytes());
          add(spec, std::max(1u, sms / (pairs * splits)));
          if (splits == 8) add(spec, 1);  // fewer SMs, but nothing to merge through memory
        }
  return all;
}

}  // namespace

std::filesystem::path tuning_file(const std::filesystem::path& folder, const cuda::DeviceInfo& device) {
  std::string name = fmt::format("{}-sm{}-{}", device.name, device.sm, device.sms);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  return folder / "tuning" / (name + ".txt");
}

Tuning::Tuning(std::filesystem::path file) : file_(std::move(file)) {
  if (file_.empty()) return;
  std::ifstream in(file_);
  std::string line;
  if (!in || !std::getline(in, line) || line != first_line) return;
  while (std::getline(in, line)) {
    const size_t space = line.find(' '), tab = line.find('\t');
    if (space == std::string::npos || tab == std::string::npos || tab < space) continue;
    const std::string kind = line.substr(0, space), key = line.substr(space + 1, tab - space - 1);
    if (kind == "product") products_[key] = line.substr(tab + 1);
    if (kind == "attention") attentions_[key] = line.substr(tab + 1);
  }
}

ProductChoice Tuning::choice(const Product& what, uint32_t rows, uint32_t cols, bool large) {
  const std::string key = key_of(what, rows, cols, large);
  if (searching_ && !entries_.count(key)) {
    Entry& entry = entries_[key];
    for (const ProductChoice& c : kernels::product_candidates(what, rows, cols, large))
      entry.candidates.push_back(line_of(c));
    products_[key] = entry.candidates[0];
  }
  ProductChoice choice = kernels::product_choice(what, rows, cols, large);
  const auto found = products_.find(key);
  if (found == products_.end()) return choice;
  if (const auto n = numbers<8>(found->second)) {
    Product spec = choice.spec;
    spec.unit = (*n)[0], spec.groups = (*n)[1], spec.per_warp = (*n)[2], spec.depth = (*n)[3], spec.resident = (*n)[4];
    spec.room = (*n)[5], spec.late = (*n)[6] != 0;
    kernels::set_second_groups(spec);
    if ((*n)[7] && (*n)[7] <= 8 && kernels::product_fits(spec)) return {spec, (*n)[7]};
  }
  return choice;
}

ClusterChoice Tuning::attention(uint32_t head, uint32_t kv_heads, uint32_t sequences, uint32_t length, uint32_t sms) {
  const std::string key = key_of(head, kv_heads, sequences, length);
  ClusterChoice choice = kernels::cluster_choice(head, kv_heads, sequences, length, sms);
  if (searching_ && !entries_.count(key)) {
    Entry& entry = entries_[key];
    for (const ClusterChoice& c : attention_candidates(choice, head, kv_heads, sequences, length, sms))
      if (const std::string line = line_of(c);
          std::find(entry.candidates.begin(), entry.candidates.end(), line) == entry.candidates.end())
        entry.candidates.push_back(line);
    attentions_[key] = entry.candidates[0];
  }
  const auto found = attentions_.find(key);
  if (found == attentions_.end()) return choice;
  if (const auto n = numbers<6>(found->second)) {
    kernels::ClusterAttention spec = choice.spec;
    spec.splits = (*n)[0], spec.rows = (*n)[1], spec.stages = (*n)[2], spec.warps = (*n)[3], spec.merge = (*n)[4] > 1;
    spec.ahead = (*n)[5];
    try {
      kernels::check_fields(spec);
    } catch (const Error&) {  // of another version
      return choice;
    }
    if (cluster_fits(spec) && (*n)[4] > 0 &&
        (*n)[4] <= std::max(1u, sms / (std::max(1u, kv_heads * sequences) * spec.splits)))
      return {spec, (*n)[4]};
  }
  return choice;
}

void Tuning::begin_search() { searching_ = true, entries_.clear(), products_.clear(), attentions_.clear(); }

std::vector<Tuning::Search> Tuning::searches() const {
  std::vector<Search> all;
  for (const auto& [key, entry] : entries_) all.push_back({key, entry.candidates.size(), entry.in_force});
  return all;
}

void Tuning::set(const std::string& key, size_t candidate) {
  Entry& entry = entries_.at(key);
  entry.in_force = candidate;
  auto& kind = products_.count(key) ? products_ : attentions_;
  kind[key] = entry.candidates.at(candidate);
}

bool Tuning::save() const {
  if (file_.empty()) return false;
  // what other models were tuned for stays
  Tuning there(file_);
  for (const auto& [key, line] : products_) there.products_[key] = line;
  for (const auto& [key, line] : attentions_) there.attentions_[key] = line;
  std::string text = std::string(first_line) + "\n";
  for (const auto& [key, line] : there.products_) text += fmt::format("product {}\t{}\n", key, line);
  for (const auto& [key, line] : there.attentions_) text += fmt::format("attention {}\t{}\n", key, line);
  std::error_code failed;
  std::filesystem::create_directories(file_.parent_path(), failed);
  const std::filesystem::path part = file_.string() + fmt::format(".{}", getpid());
  std::ofstream out(part);
  out << text;
  out.close();
  if (out) std::filesystem::rename(part, file_, failed);
  if (out && !failed) return true;
  std::filesystem::remove(part, failed);
  return false;
}

}  // namespace heddle::gpu
