// The KV cache and attention over it.
//
// Positions of a sequence are taken in spans, always the same ones: each span is a softmax of its own, and the spans
// are merged in order. So a row's result is the same whether one thread walks all spans or several share them.
#pragma once
#include <vector>

#include "cpu/isa.h"
#include "cpu/pages.h"
#include "cpu/rows.h"
#include "cpu/team.h"
#include "model/backend.h"

namespace heddle::cpu {

// Throws an Error if the heads of a layer do not go with the format of the cache.
void expect_kv_format(const model::Model& model, const model::Limits& limits);

// One layer. A block has keys (kv_heads, head, stride), positions innermost, and values (kv_heads, tokens, value_head),
// with scales as KvBlock says where the format has some: those of a head follow it.
class KvCache {
 public:
  KvCache(const model::Attention& attention, const model::Limits& limits);

  // Keys (kv_heads, head) and values (kv_heads, value_head) of one position.
  void put(const Isa& isa, uint32_t block, uint32_t token, const float* keys, const float* values);
  void copy(uint32_t from, uint32_t to);
  KvBlock block(uint32_t index, uint32_t kv_head, uint32_t first) const;
  const AttendHead& head() const { return head_; }

 private:
  void put_f16(const Isa& isa, const KvBlock& to, uint32_t token, const float* keys, const float* values);
  void put_q8(const KvBlock& to, uint32_t token, const float* keys, const float* values);
  AttendHead head_;
  uint32_t kv_heads_, blocks_;
  model::KvFormat format_;
  uint64_t key_count_, value_count_;  // of one head in a block
  uint64_t key_bytes_, value_bytes_;  // that those take
  Pages keys_, values_;               // a block that was never written takes no memory
};

class Attend {
 public:
  Attend(const Isa& isa, Team& team, const model::Limits& limits) : isa_(isa), team_(team), limits_(limits) {}

  // out row i = attention of q row i (heads, head) over the cache.
  void run(const model::Batch& batch, const model::Attention& attention, const KvCache& cache, const Rows& q,
           Rows& out);

 private:
  struct Item {  // some rows of a sequence, or one span of one row
    uint32_t row, rows, kv_head;
    uint32_t first_span, spans;
    uint64_t partial;  // where its state goes; only if one of several
  };
  struct Scratch {
    std::vector<float> floats, out, span_out;
    std::vector<Softmax> softmax, span_softmax;
    std::vector<AttendRow> rows;
  };
  void walk(const model::Batch& batch, const model::Attention& attention, const KvCache& cache, const Rows& q,
            const Item& item, Scratch& scratch) const;
  uint32_t span_blocks() const;
  uint32_t first_span(const model::Attention& attention, uint32_t position) const;

  const Isa& isa_;
  Team& team_;
  model::Limits limits_;
  std::vector<Item> items_;
  std::vector<Scratch> scratch_;  // of each thread
  std::vector<float> partial_out_;
  std::vector<Softmax> partial_;
};

}  // namespace heddle::cpu
