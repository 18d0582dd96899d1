// The file has a line per kernel: "product", "many_vectors" or "attention", the key, a tab, the numbers of the shape.
// Keys and shapes are text there and nowhere else.
#include "gpu/tuning.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace heddle::gpu {
namespace {

using kernels::ClusterChoice;
using kernels::Product;
using kernels::ProductChoice;
using kernels::WgmmaProduct;

constexpr std::string_view first_line = "heddle tuning 1";

// --- keys and shapes as text ----------------------------------------------------------------------------------------
std::string length_text(LengthClass length) {
  switch (length) {
    case LengthClass::up_to_short:
      return fmt::format("up to {}", short_length);
    case LengthClass::up_to_middle:
      return fmt::format("up to {}", middle_length);
    case LengthClass::longer:
      break;
  }
  return fmt::format("more than {}", middle_length);
}

// "8 kv heads of 128, 1 sequences, up to 8192 positions"
std::string text_of(const AttentionKey& key) {
  return fmt::format("{} kv heads of {}, {} sequences, {} positions", key.kv_heads, key.head, key.sequences,
                     length_text(key.length));
}
std::optional<AttentionKey> attention_key(const std::string& text) {
  std::istringstream in(text);
  AttentionKey key;
  std::string word;
  in >> key.kv_heads >> word >> word >> word >> key.head >> word >> key.sequences;
  for (const LengthClass length : {LengthClass::up_to_short, LengthClass::up_to_middle, LengthClass::longer}) {
    key.length = length;
    if (in && text_of(key) == text) return key;
  }
  return {};
}

// "format=q4_k norm=rms ": the format, and the fields that have not their default
template <class Spec>
std::string fields_text(const Spec& what) {
  std::string text;
  kernels::each_field<Spec>([&](const auto& field) {
    const uint32_t value = what.*field.member;
    if (value != Spec().*field.member || field.name == "format")
      text += fmt::format("{}={} ", field.name, field.allowed.text(value));
  });
  return text;
}
// The fields at the start of a text, and the first word that is none.
template <class Spec>
std::string read_fields(std::istream& in, Spec& what) {
  std::string word;
  while (in >> word) {
    const size_t equals = word.find('=');
    if (equals == word.npos) break;
    kernels::each_field<Spec>([&](const auto& field) {
      if (word.substr(0, equals) == field.name)
        what.*field.member = field.allowed.parse(word.substr(equals + 1)).value_or(what.*field.member);
    });
  }
  return word;
}

// "format=q4_k norm=rms 4096 -> 28672"
std::string text_of(const ProductKey& key) {
  return fmt::format("{}{}{} -> {}", fields_text(key.what), key.large ? "large " : "", key.cols, key.rows);
}
std::optional<ProductKey> product_key(const std::string& text) {
  std::istringstream in(text);
  ProductKey key;
  std::string word = read_fields(in, key.what);
  if (word == "large") {
    key.large = true;
    in >> word;
  }
  std::istringstream(word) >> key.cols;
  in >> word >> key.rows;
  return in && text_of(key) == text ? std::optional(key) : std::nullopt;
}

// "format=q4_k out=gate 4096 -> 28672 x 64"
std::string text_of(const ManyVectorsKey& key) {
  return fmt::format("{}{} -> {} x {}", fields_text(key.what), key.cols, key.rows, key.vectors);
}
std::optional<ManyVectorsKey> many_vectors_key(const std::string& text) {
  std::istringstream in(text);
  ManyVectorsKey key;
  std::string word = read_fields(in, key.what);
  std::istringstream(word) >> key.cols;
  in >> word >> key.rows >> word >> key.vectors;
  return in && text_of(key) == text ? std::optional(key) : std::nullopt;
}

template <class Shape>
using Numbers = std::array<uint32_t, sizeof(Shape) / sizeof(uint32_t)>;
template <class Shape>
std::string numbers_of(const Shape& shape) {
  return fmt::format("{}", fmt::join(std::bit_cast<Numbers<Shape>>(shape), " "));
}
template <class Shape>
std::optional<Shape> shape_from(const std::string& text) {
  std::istringstream in(text);
  Numbers<Shape> numbers{};
  for (uint32_t& number : numbers)
    if (!(in >> number) || number > 65535) return {};
  return std::bit_cast<Shape>(numbers);
}

// --- shapes and choices ---------------------------------------------------------------------------------------------
ProductKey key_of(Product what, uint32_t rows, uint32_t cols, bool large) {
  const Product plain;
  what.tile_cols = plain.tile_cols;
  what.slices = plain.slices;
  what.groups = plain.groups;
  what.per_warp = plain.per_warp;
  what.depth = plain.depth;
  what.resident = plain.resident;
  what.unit = plain.unit;
  what.room = plain.room;
  what.late = plain.late;
  return {what, rows, cols, large};
}

ManyVectorsShape tuned_shape(const WgmmaProduct& s) {
  return {s.columns, s.row_groups, s.col_groups, s.shares, s.stage_cols, s.run, s.stages, s.runs, s.early};
}
ProductShape tuned_shape(const ProductChoice& c) {
  const Product& s = c.spec;
  return {s.unit, s.groups, s.per_warp, s.depth, s.resident, s.room, s.late, c.blocks_per_sm};
}
AttentionShape tuned_shape(const ClusterChoice& c) {
  const kernels::ClusterAttention& s = c.spec;
  return {s.splits, s.rows, s.stages, s.warps, c.clusters, s.ahead};
}

// `choice` with this shape, or as it is where the shape does not fit.
ProductChoice reshaped(const ProductChoice& choice, const ProductShape& shape, const kernels::GpuLimits& gpu) {
  Product spec = choice.spec;
  spec.unit = shape.unit;
  spec.groups = shape.groups;
  spec.per_warp = shape.per_warp;
  spec.depth = shape.depth;
  spec.resident = shape.resident;
  spec.room = shape.room;
  spec.late = shape.late != 0;
  kernels::set_second_groups(spec);
  const bool fits = shape.blocks_per_sm > 0 && shape.blocks_per_sm <= 8 && kernels::product_fits(spec, gpu);
  return fits ? ProductChoice{spec, shape.blocks_per_sm} : choice;
}

WgmmaProduct reshaped(const WgmmaProduct& choice, const ManyVectorsShape& shape, uint32_t vectors) {
  WgmmaProduct spec = choice;
  spec.columns = shape.columns;
  spec.row_groups = shape.row_groups;
  spec.col_groups = shape.col_groups;
  spec.shares = shape.shares;
  spec.stage_cols = shape.stage_cols;
  spec.stages = shape.stages;
  spec.run = shape.run;
  spec.runs = shape.runs;
  spec.early = shape.early;
  try {
    kernels::check_fields(spec);
  } catch (const Error&) {  // a file of another version
    return choice;
  }
  // buffers have room for groups of less than twice as many vectors as there are (see work.cpp)
  const bool has_room = spec.experts ? spec.shares == 1 : spec.columns == 8 || spec.columns < 2 * vectors;
  return spec.fits() && has_room ? spec : choice;
}

bool cluster_fits(const kernels::ClusterAttention& s, const kernels::GpuLimits& gpu) {
  if (!gpu.clusters && (s.splits > 1 || s.stages < 2)) return false;
  return s.shared_bytes() <= gpu.shared_per_block && s.stages > 0 && s.suits_warps() &&
         s.stages * s.stage_bytes() <= 180 * 1024;
}

ClusterChoice reshaped(const ClusterChoice& choice, const AttentionShape& shape, uint32_t pairs, uint32_t sms,
                       const kernels::GpuLimits& gpu) {
  kernels::ClusterAttention spec = choice.spec;
  spec.splits = shape.splits;
  spec.rows = shape.rows;
  spec.stages = shape.stages;
  spec.warps = shape.warps;
  spec.merge = shape.clusters > 1;
  spec.ahead = shape.ahead;
  try {
    kernels::check_fields(spec);
  } catch (const Error&) {  // a file of another version
    return choice;
  }
  const bool fits =
      cluster_fits(spec, gpu) && shape.clusters > 0 && shape.clusters <= std::max(1u, sms / (pairs * spec.splits));
  return fits ? ClusterChoice{spec, shape.clusters} : choice;
}

// Each shape once, `given` first.
std::vector<AttentionShape> attention_candidates(const ClusterChoice& given, uint32_t head, uint32_t length,
                                                 uint32_t pairs, uint32_t sms, const kernels::GpuLimits& gpu) {
  std::vector<AttentionShape> all{tuned_shape(given)};
  auto add = [&](kernels::ClusterAttention spec, uint32_t clusters) {
    spec.merge = clusters > 1;
    const AttentionShape shape = tuned_shape(ClusterChoice{spec, clusters});
    if (cluster_fits(spec, gpu) && std::find(all.begin(), all.end(), shape) == all.end()) all.push_back(shape);
  };
  kernels::ClusterAttention spec{.head_dim = head, .copies = kernels::copies_on(gpu)};
  if (length <= short_length && gpu.clusters) {
    for (uint32_t splits : {4u, 8u, 16u})
      for (uint32_t rows : {2u, 4u, 8u}) {
        spec.splits = splits;
        spec.rows = rows;
        spec.warps = std::max(1u, rows / 2) * spec.value_parts();
        spec.stages = 16 / rows;
        add(spec, 1);
      }
    return all;
  }
  std::vector<std::pair<uint32_t, uint32_t>> rows_and_warps{{8, 4}, {16, 4}, {16, 8}};
  if (spec.value_parts() > 1) rows_and_warps = {{2, 2}, {4, 4}};
  for (uint32_t splits : {1u, 2u, 4u, 8u})
    for (const auto& [rows, warps] : rows_and_warps)
      for (uint32_t kilobytes : {66u, 100u, 132u, 160u})
        for (uint32_t ahead : {0u, 2u}) {
          spec.splits = splits;
          spec.rows = rows;
          spec.warps = warps;
          spec.ahead = ahead;
          spec.stages = std::min(16u, kilobytes * 1024 / spec.stage_bytes());
          add(spec, std::max(1u, sms / (pairs * splits)));
          if (splits == 8) add(spec, 1);  // fewer SMs, but nothing to merge through memory
        }
  return all;
}

}  // namespace

std::string text_of(const TuningKey& key) {
  return std::visit([](const auto& of_kind) { return text_of(of_kind); }, key);
}

std::filesystem::path tuning_file(const std::filesystem::path& folder, const cuda::DeviceInfo& device) {
  std::string name = fmt::format("{}-sm{}-{}", device.name, device.sm, device.sms);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  return folder / "tuning" / (name + ".txt");
}

template <class Key, class Shape>
const Shape* Tuning::Table<Key, Shape>::find(const Key& key) const {
  const auto found = shapes.find(key);
  return found == shapes.end() ? nullptr : &found->second;
}
template <class Key, class Shape>
void Tuning::Table<Key, Shape>::set(const Key& key, size_t candidate) {
  Candidates& of_key = candidates.at(key);
  shapes[key] = of_key.shapes.at(candidate);
  of_key.in_force = candidate;
}
template <class Key, class Shape>
void Tuning::Table<Key, Shape>::append_searches(std::vector<Search>& to) const {
  for (const auto& [key, of_key] : candidates) to.push_back({key, of_key.shapes.size(), of_key.in_force});
}

Tuning::Tuning(std::filesystem::path file, const kernels::GpuLimits& gpu) : file_(std::move(file)), gpu_(gpu) {
  if (file_.empty()) return;
  std::ifstream in(file_);
  std::string line;
  if (!in || !std::getline(in, line) || line != first_line) return;
  while (std::getline(in, line)) {
    const size_t space = line.find(' '), tab = line.find('\t');
    if (space == std::string::npos || tab == std::string::npos || tab < space) continue;
    const std::string kind = line.substr(0, space), key = line.substr(space + 1, tab - space - 1);
    const std::string numbers = line.substr(tab + 1);
    if (kind == "product") {
      const auto product = product_key(key);
      const auto shape = shape_from<ProductShape>(numbers);
      if (product && shape) products_.shapes[*product] = *shape;
    } else if (kind == "many_vectors") {
      const auto many = many_vectors_key(key);
      const auto shape = shape_from<ManyVectorsShape>(numbers);
      if (many && shape) many_.shapes[*many] = *shape;
    } else if (kind == "attention") {
      const auto attention = attention_key(key);
      const auto shape = shape_from<AttentionShape>(numbers);
      if (attention && shape) attentions_.shapes[*attention] = *shape;
    }
  }
}

ProductChoice Tuning::product(const Product& what, uint32_t rows, uint32_t cols, bool large) {
  const ProductKey key = key_of(what, rows, cols, large);
  if (searching_ && !products_.candidates.contains(key)) {
    for (const ProductChoice& candidate : kernels::product_candidates(what, rows, cols, large, gpu_))
      products_.candidates[key].shapes.push_back(tuned_shape(candidate));
    products_.set(key, 0);
  }
  const ProductChoice choice = kernels::product_choice(what, rows, cols, large, gpu_);
  const ProductShape* shape = products_.find(key);
  return shape ? reshaped(choice, *shape, gpu_) : choice;
}

const WgmmaProduct& Tuning::many_vectors(const WgmmaProduct& what, uint32_t rows, uint32_t cols, uint32_t vectors,
                                         uint32_t sms) {
  constexpr size_t worth_trying = 8;  // candidates
  // the shape is the same for each eight vectors
  const ManyVectorsKey key{what, rows, cols, what.experts ? vectors : (vectors + 7) / 8 * 8};
  if (const auto found = chosen_.find(key); found != chosen_.end()) return found->second;
  const WgmmaProduct choice = kernels::wgmma_product_choice(what, rows, cols, key.vectors, sms);
  if (searching_ && !many_.candidates.contains(key)) {
    for (const WgmmaProduct& candidate : kernels::wgmma_product_candidates(what, rows, cols, key.vectors, sms))
      if (many_.candidates[key].shapes.size() < worth_trying)
        many_.candidates[key].shapes.push_back(tuned_shape(candidate));
    many_.set(key, 0);
  }
  const ManyVectorsShape* shape = many_.find(key);
  return chosen_[key] = shape ? reshaped(choice, *shape, key.vectors) : choice;
}

const kernels::MmaTiles& Tuning::many_vectors(const kernels::MmaTiles& what, uint32_t rows, uint32_t cols,
                                              uint32_t vectors, const cuda::DeviceInfo& device) {
  // the shape is the same for each eight vectors
  const TilesKey key{what, rows, cols, what.experts ? vectors : (vectors + 7) / 8 * 8};
  if (const auto found = chosen_tiles_.find(key); found != chosen_tiles_.end()) return found->second;
  kernels::MmaTiles asked = what;
  asked.async = device.sm >= 80;
  return chosen_tiles_[key] =
             kernels::mma_tiles_choice(asked, rows, cols, key.vectors, device.sms, device.shared_per_block_optin);
}

ClusterChoice Tuning::attention(uint32_t head, uint32_t kv_heads, uint32_t sequences, uint32_t length, uint32_t sms) {
  const AttentionKey key{head, kv_heads, sequences, length_class(length)};
  const ClusterChoice choice = kernels::cluster_choice(head, kv_heads, sequences, length, sms, gpu_);
  const uint32_t pairs = std::max(1u, kv_heads * sequences);
  if (searching_ && !attentions_.candidates.contains(key)) {
    attentions_.candidates[key].shapes = attention_candidates(choice, head, length, pairs, sms, gpu_);
    attentions_.set(key, 0);
  }
  const AttentionShape* shape = attentions_.find(key);
  return shape ? reshaped(choice, *shape, pairs, sms, gpu_) : choice;
}

void Tuning::begin_search() {
  searching_ = true;
  products_ = {};
  attentions_ = {};
  many_ = {};
  chosen_.clear();
}

std::vector<Tuning::Search> Tuning::searches() const {
  std::vector<Search> all;
  attentions_.append_searches(all);
  products_.append_searches(all);
  many_.append_searches(all);
  return all;
}

void Tuning::set(const TuningKey& key, size_t candidate) {
  chosen_.clear();
  std::visit([&](const auto& of_kind) { table_of(of_kind).set(of_kind, candidate); }, key);
}

bool Tuning::save() const {
  if (file_.empty()) return false;
  // what other models were tuned for stays
  Tuning all(file_);
  for (const auto& [key, shape] : products_.shapes) all.products_.shapes[key] = shape;
  for (const auto& [key, shape] : attentions_.shapes) all.attentions_.shapes[key] = shape;
  for (const auto& [key, shape] : many_.shapes) all.many_.shapes[key] = shape;
  std::string text = std::string(first_line) + "\n";
  for (const auto& [key, shape] : all.products_.shapes)
    text += fmt::format("product {}\t{}\n", text_of(key), numbers_of(shape));
  for (const auto& [key, shape] : all.many_.shapes)
    text += fmt::format("many_vectors {}\t{}\n", text_of(key), numbers_of(shape));
  for (const auto& [key, shape] : all.attentions_.shapes)
    text += fmt::format("attention {}\t{}\n", text_of(key), numbers_of(shape));
  std::error_code failed;
  std::filesystem::create_directories(file_.parent_path(), failed);
  const std::filesystem::path temporary = file_.string() + fmt::format(".{}", getpid());
  std::ofstream out(temporary);
  out << text;
  out.close();
  if (out) std::filesystem::rename(temporary, file_, failed);
  if (out && !failed) return true;
  std::filesystem::remove(temporary, failed);
  return false;
}

}  // namespace heddle::gpu
