// Which shape of a kernel is fastest on this GPU: the defaults, or what a search has found and kept on disk.
#pragma once
#include <compare>
#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "cuda/device.h"
#include "kernels/attention/cluster_attention.h"
#include "kernels/product/mma_tiles.h"
#include "kernels/product/wgmma_product.h"

namespace heddle::gpu {

// Beside the folder of cubins, one file for GPUs of this kind.
std::filesystem::path tuning_file(const std::filesystem::path& folder, const cuda::DeviceInfo& device);

// Attention has a shape for sequences of up to `short_length` positions, one for up to `middle_length`, and one for
// longer ones.
inline constexpr uint32_t short_length = 1024, middle_length = 8192;
enum class LengthClass : uint8_t { up_to_short, up_to_middle, longer };
constexpr LengthClass length_class(uint32_t positions) {
  return positions <= short_length    ? LengthClass::up_to_short
         : positions <= middle_length ? LengthClass::up_to_middle
                                      : LengthClass::longer;
}

// What a tuned kernel computes.
struct AttentionKey {
  uint32_t head = 0, kv_heads = 0, sequences = 0;
  LengthClass length = LengthClass::up_to_short;
  auto operator<=>(const AttentionKey&) const = default;
};
struct ProductKey {
  kernels::Product what;  // the fields that are its shape have their defaults
  uint32_t rows = 0, cols = 0;
  bool large = false;  // see kernels::product_choice
  auto operator<=>(const ProductKey&) const = default;
};
struct ManyVectorsKey {
  kernels::WgmmaProduct what;  // the fields that are its shape have their defaults
  uint32_t rows = 0, cols = 0;
  uint32_t vectors = 0;  // up to this many; experts: what each may expect
  auto operator<=>(const ManyVectorsKey&) const = default;
};
using TuningKey = std::variant<AttentionKey, ProductKey, ManyVectorsKey>;
std::string text_of(const TuningKey& key);  // for messages, and in the file

// How it computes it: the numbers that a search varies, in the order of the file.
struct AttentionShape {
  uint32_t splits, rows, stages, warps, clusters, ahead;
  bool operator==(const AttentionShape&) const = default;
};
struct ProductShape {
  uint32_t unit, groups, per_warp, depth, resident, room, late, blocks_per_sm;
  bool operator==(const ProductShape&) const = default;
};

struct ManyVectorsShape {
  uint32_t columns, row_groups, col_groups, shares, stage_cols, run, stages, runs, early;
  bool operator==(const ManyVectorsShape&) const = default;
};

class Tuning {
 public:
  // Reads the file if it exists and is one of ours; lines that cannot be read are ignored. An empty path: no file.
  // `gpu`: what shapes must fit.
  explicit Tuning(std::filesystem::path file = {}, const kernels::GpuLimits& gpu = {});

  // The default shape if none is known, or if the known one does not fit.
  kernels::ProductChoice product(const kernels::Product& what, uint32_t rows, uint32_t cols, bool large);
  // Remembered: a batch asks for the same few shapes in every layer.
  const kernels::WgmmaProduct& many_vectors(const kernels::WgmmaProduct& what, uint32_t rows, uint32_t cols,
                                            uint32_t vectors, uint32_t sms);
  // The same for GPUs without wgmma: always the default shape.
  const kernels::MmaTiles& many_vectors(const kernels::MmaTiles& what, uint32_t rows, uint32_t cols, uint32_t vectors,
                                        const cuda::DeviceInfo& device);
  kernels::ClusterChoice attention(uint32_t head, uint32_t kv_heads, uint32_t sequences, uint32_t length, uint32_t sms);

  // A search goes through the kernels that were asked for since begin_search(), one after the other: each has
  // candidates, of which one is in force.
  struct Search {
    TuningKey key;
    size_t candidates = 0;
    size_t in_force = 0;
  };
  void begin_search();
  std::vector<Search> searches() const;
  void set(const TuningKey& key, size_t candidate);  // throws std::out_of_range
  // Writes what is in force to the file. False if it could not be written.
  bool save() const;
  const std::filesystem::path& file() const { return file_; }
  size_t known() const { return products_.shapes.size() + attentions_.shapes.size() + many_.shapes.size(); }

 private:
  template <class Key, class Shape>
  struct Table {
    struct Candidates {
      std::vector<Shape> shapes;
      size_t in_force = 0;
    };
    std::map<Key, Shape> shapes;           // from the file, or in force
    std::map<Key, Candidates> candidates;  // of the search
    const Shape* find(const Key& key) const;
    void set(const Key& key, size_t candidate);
    void append_searches(std::vector<Search>& to) const;
  };
  auto& table_of(const ProductKey&) { return products_; }
  auto& table_of(const AttentionKey&) { return attentions_; }
  auto& table_of(const ManyVectorsKey&) { return many_; }

  std::filesystem::path file_;
  kernels::GpuLimits gpu_;
  Table<ProductKey, ProductShape> products_;
  Table<AttentionKey, AttentionShape> attentions_;
  Table<ManyVectorsKey, ManyVectorsShape> many_;
  bool searching_ = false;
  std::map<ManyVectorsKey, kernels::WgmmaProduct> chosen_;  // as many_vectors() gave them, until another is in force
  struct TilesKey {
    kernels::MmaTiles what;
    uint32_t rows, cols, vectors;
    auto operator<=>(const TilesKey&) const = default;
  };
  std::map<TilesKey, kernels::MmaTiles> chosen_tiles_;
};

}  // namespace heddle::gpu
